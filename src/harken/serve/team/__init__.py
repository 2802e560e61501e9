"""A team: the verbs about it, calls of its members, their pages."""
