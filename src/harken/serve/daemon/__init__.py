"""The one process of a home that keeps the model loaded and the workers running; asked over a local socket."""
