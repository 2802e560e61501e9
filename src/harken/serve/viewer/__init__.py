"""Pages of what is remembered, for a browser on this machine: each is a view of an operation's answer."""
