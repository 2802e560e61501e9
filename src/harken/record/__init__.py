"""Everything that comes in: the recorder, threads, core memory, forgetting, projects, the doctor."""
