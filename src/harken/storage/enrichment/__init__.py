"""Rows of background work: jobs, summaries, rolling summaries of segments, spend."""
