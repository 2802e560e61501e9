"""Experiences, values, and the tests and builds that tell of them."""
