"""Models behind ports: embedders and rerankers, local and remote."""

import os

# From 1.32 on, whoever imports onnxruntime is told of to Microsoft, and has a file of events in the cache of the user.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # noqa: TID251 - it is read by another library
