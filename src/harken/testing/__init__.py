"""Stand-ins that ship with Harken, for its own tests and those of its users."""

from harken.testing.chat_server import ChatServer, Says, ScriptedCall
from harken.testing.embedding_server import EmbeddingServer
from harken.testing.hashing_embedder import HashingEmbedder, hashed_vectors
from harken.testing.local_server import Reply, Request
from harken.testing.overlap_reranker import OverlapReranker
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
