"""Stand-ins that ship with Harken, for its own tests and those of its users."""

from harken.testing.endpoints import ChatServer, EmbeddingServer, Says, ScriptedCall
from harken.testing.local_server import Reply, Request
from harken.testing.models import HashingEmbedder, OverlapReranker, hashed_vectors
from harken.testing.talk import Talk, talk_of

__all__ = [
    "ChatServer",
    "EmbeddingServer",
    "HashingEmbedder",
    "OverlapReranker",
    "Reply",
    "Request",
    "Says",
    "ScriptedCall",
    "Talk",
    "hashed_vectors",
    "talk_of",
]
