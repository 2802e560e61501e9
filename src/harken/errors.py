"""Every error that Harken raises, one tree.

HarkenError
├── ConfigError            a setting has no such key, or a value out of range
├── UsageError             an argument that cannot be meant
├── NotFoundError          an id that names nothing, or nothing that the caller may see
├── AccessError            who asks may not
│   ├── KeyRefusedError    a key is unknown, expired or revoked
│   └── ScopeError         a key, or what a space grants, does not reach that far
│   │   └── SpaceReadOnlyError  a space may only be read; a StoreReadOnlyError too
│   └── ForeignRecordError  somebody else has brought it into a shared space
├── RepeatedRequestError   the same request is being answered at this moment
├── ContextAssemblyError   a context cannot be put together
│   └── InvalidContextTypeError  a type of context that there is none of; a UsageError too
├── MissingExtraError      an optional dependency is not installed
├── StoreError             the database refuses
│   ├── StoreBusyError     locked by another process for longer than the timeout
│   ├── StoreFullError     no space left on the device
│   ├── StoreReadOnlyError the home cannot be written
│   ├── StoreCorruptError  the database file is damaged
│   └── SchemaError        made by another version of Harken
│       └── SchemaBehindError  a server's tables are yet to be made or upgraded by `harken migrate`
├── JournalError           the journal cannot be read or written
├── TranscriptError        a file is not a transcript of the format
├── ImportStoppedError     a process that read for an import has ended
├── ExportError            a file is no whole export, or a newer Harken's
├── GitError               git is missing, or refuses
└── ProviderError          an embedding, reranking or language model fails
    ├── ModelFileError     model files are missing, damaged or not the pinned ones
    ├── PromptError        a language model does not take this prompt; another may do
    ├── SpendLimitError    the day's limit of spending is reached
    └── EndpointError      a remote endpoint refuses or does not answer
        ├── EndpointTimeoutError  it took too long
        ├── RateLimitError        too many requests; it may say when to come back
        ├── CredentialError       the API key is missing, wrong, or has no credit left
        └── UnknownModelError     the endpoint has no model of that name
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any


class HarkenError(Exception):
    """The root of every error that Harken raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Carry it to another process as it is: pools hang or break on what takes other arguments than it keeps."""
        return Exception.__new__, (type(self), *self.args), self.__dict__


class ConfigError(HarkenError):
    """A setting is unknown, malformed or outside its allowed range."""


class UsageError(HarkenError):
    """An argument cannot be meant; the command line answers with exit code 2."""


class NotFoundError(HarkenError):
    """An id names nothing in the store."""


class AccessError(HarkenError):
    """Who asks may not do what is asked for."""


class KeyRefusedError(AccessError):
    """A key is unknown, has expired, or was revoked; which of these, nobody is told who may not know."""

    def __init__(self) -> None:
        super().__init__("This key is not valid. Ask whoever manages the team for another: harken key create")


class RepeatedRequestError(HarkenError):
    """The same request is being answered at this moment."""


class ScopeError(AccessError):
    """A key lacks a scope, or its principal a right in a space.

    Args:
        scope: what is missing.
        space: where; empty where it is the key's.
    """

    def __init__(self, scope: str, space: str = "") -> None:
        where = f"the right '{scope}' in the space {space}" if space else f"the scope '{scope}'"
        super().__init__(f"This needs {where}, which you do not have. See: harken whoami")
        self.scope = scope
        self.space = space


class ForeignRecordError(AccessError):
    """Somebody else has brought a record into a shared space.

    Args:
        uid: of the record.
        space: its name.
        brought_by: the names of whoever did; empty where nobody knows.
        admins: the names of who administers the space.
    """

    def __init__(self, uid: str, space: str, brought_by: str, admins: Sequence[str]) -> None:
        who = f"{uid} was brought by {brought_by}" if brought_by else f"Nobody knows who has brought {uid}"
        only = f"only {brought_by} and those who administer it" if brought_by else "only those who administer it"
        super().__init__(f"{who} into the space {space}: {only} may change or forget it ({', '.join(admins)}).")
        self.uid = uid
        self.space = space


class ContextAssemblyError(HarkenError):
    """A context cannot be put together from what is remembered."""


class InvalidContextTypeError(ContextAssemblyError, UsageError):
    """A type of context was asked for that there is none of."""


class MissingExtraError(HarkenError):
    """An optional dependency is not installed.

    Args:
        feature: what was asked for, in the user's words.
        extra: the extra of this package that brings it.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra that is not installed. Try: pip install 'harken[{extra}]'")
        self.feature = feature
        self.extra = extra


class StoreError(HarkenError):
    """The database refuses an operation."""


class StoreBusyError(StoreError):
    """Another process held the database longer than the timeout."""


class StoreFullError(StoreError):
    """No space is left on the device of the home."""


class StoreReadOnlyError(StoreError):
    """The home or the database cannot be written."""


class StoreCorruptError(StoreError):
    """The database file is damaged."""


class SchemaError(StoreError):
    """The database was made by another version of Harken."""


class SchemaBehindError(SchemaError):
    """A server's tables are not made yet, or not upgraded: `harken migrate` does it."""


class SpaceReadOnlyError(ScopeError, StoreReadOnlyError):
    """Who asks may not write in a space, or not change its settings."""


class JournalError(HarkenError):
    """The journal cannot be read or written."""


class TranscriptError(HarkenError):
    """A file is not a transcript of the format it was given as."""


class ImportStoppedError(HarkenError):
    """A process that read transcripts for an import has ended before its work."""


class ExportError(HarkenError):
    """A file is not a whole export, or a newer Harken made it."""


class GitError(HarkenError):
    """Git is missing, or refuses."""


class ProviderError(HarkenError):
    """An embedding, reranking or language model fails."""


class ModelFileError(ProviderError):
    """Model files are missing, damaged, or not the pinned ones."""


class EndpointError(ProviderError):
    """A remote endpoint refuses, or does not answer in time; what was sent and not refused may cost all the same."""

    def __init__(self, message: str, may_cost: bool = False) -> None:
        super().__init__(message)
        self.may_cost = may_cost


class PromptError(ProviderError):
    """A language model does not take this prompt: too long, or malformed to it."""


class SpendLimitError(ProviderError):
    """What may be spent on models today is spent, or a limit cannot be held because no price is known.

    Args:
        message: what happened, and what to do.
        resumes_at: when calls go on by themselves; None where a setting has to change first.
    """

    def __init__(self, message: str, resumes_at: datetime | None = None) -> None:
        super().__init__(message)
        self.resumes_at = resumes_at


class EndpointTimeoutError(EndpointError):
    """An endpoint did not answer in time."""


class RateLimitError(EndpointError):
    """An endpoint wants fewer requests.

    Args:
        message: what happened, and what to do.
        retry_after_seconds: when to come back; None where the endpoint does not say.
    """

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class CredentialError(EndpointError):
    """An endpoint does not accept the API key, or what stands behind it is used up."""


class UnknownModelError(EndpointError):
    """An endpoint has no model of the configured name."""


_LINE_CHARS, _WORD_CHARS = 1000, 300


def sentence_of(error: Exception | str) -> str:
    """What an error says, on one line that can be shown to anybody.

    What it quotes may be anything that somebody sent: control characters and halves of characters are left out, and
    what is too long to be read is cut in its middle, for the fix stands at the end.
    """
    line = "".join(char if char.isprintable() else " " for char in _cut(str(error), _LINE_CHARS))
    return " ".join(_cut(word, _WORD_CHARS) for word in line.split())


def _cut(text: str, most: int) -> str:
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"
