"""What comes in: the recorder, its journal, redaction, project identity and transcript importers."""
