"""The daemon's HTTP side: routes, their description, and who may speak."""
