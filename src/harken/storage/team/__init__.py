"""Who is in a team, by which keys, what they may see, and who has brought what into its spaces; on a server alone."""
