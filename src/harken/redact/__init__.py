"""Secrets and private passages taken out of whatever is about to be kept."""
