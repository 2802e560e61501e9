"""Memory put into the configuration of coding agents, and taken out again without a trace."""
