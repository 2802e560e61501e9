"""What can be remembered beside conversations: a file per source, and the port that all of them keep."""
