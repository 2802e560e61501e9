"""Stand-ins that ship with Harken, for its own tests and those of its users."""

from harken.testing.embedding_server import EmbeddingServer, Reply
from harken.testing.hashing_embedder import HashingEmbedder, hashed_vectors
from harken.testing.overlap_reranker import OverlapReranker
from harken.testing.talk import Talk, talk_of

__all__ = ["EmbeddingServer", "HashingEmbedder", "OverlapReranker", "Reply", "Talk", "hashed_vectors", "talk_of"]
