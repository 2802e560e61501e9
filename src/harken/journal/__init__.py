"""The truth of the embedded store: every event as a line of JSON, and the ways back into rows."""
