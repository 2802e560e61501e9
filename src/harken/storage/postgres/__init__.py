"""PostgreSQL with pgvector: what it does differently from the embedded engine."""
