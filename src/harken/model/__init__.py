"""The records that travel through Harken, and what each is as a row, a line of the journal and a view."""
