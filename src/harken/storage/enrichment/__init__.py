"""What enrichment asks of the rows: jobs, summaries, rolling summaries of segments, spend."""
