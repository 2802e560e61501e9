"""How well memory finds, measured on the owner's own history."""
