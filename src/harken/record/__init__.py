"""Recording: the recorder, threads, core memory, forgetting, projects, the doctor."""
