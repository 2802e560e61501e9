"""What was learned: experiences, the texts by which they are found, their tiers, and values."""
