"""What the owner says of conversations: tags, a title, a project. Each change is an event of the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from harken.errors import UsageError
from harken.model.arguments import MAX_TAGS, several
from harken.model.conversations import Labelled, ProjectIdentity
from harken.model.views import LabelView, view_of
from harken.record.project import identify_project
from harken.record.recorder import TICK, Recorder
from harken.storage.conversations import conversation_named
from harken.storage.ports import Transaction
from harken.storage.projects import project_identity, project_row
from harken.storage.records.marks import own_label, used_tags

MAX_TAG_CHARS, _MAX_TITLE_CHARS = 50, 200


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags on one line each, without blanks around them, each once.

    Raises:
        UsageError: there are too many, or one is too long.
    """
    clean = tuple(dict.fromkeys(flat for tag in several(tags) if (flat := " ".join(tag.split()))))
    if len(clean) > MAX_TAGS:
        raise UsageError(f"There may be at most {MAX_TAGS} tags, not {len(clean)}.")
    longest = max(clean, key=len, default="")
    if len(longest) > MAX_TAG_CHARS:
        raise UsageError(f"A tag has at most {MAX_TAG_CHARS} characters; '{longest[:20]}…' has {len(longest)}.")
    return clean


@dataclass(frozen=True, slots=True)
class ConversationLabel:
    """A conversation as its owner calls it; without a title or a project of theirs, as it was recorded."""

    conversation_uid: str
    title: str
    tags: tuple[str, ...]
    project: str | None
    is_titled: bool
    is_moved: bool

    def view(self) -> LabelView:
        """The label as JSON."""
        return view_of(LabelView, self, id=self.conversation_uid, titled=self.is_titled, moved=self.is_moved)


@dataclass(frozen=True, slots=True)
class Labels:
    """Tags, titles and projects of conversations; reached as `Harken.labels`.

    Conversations go by their ids, the beginning of one, or their own names.
    """

    recorder: Recorder

    def show(self, conversation: str) -> ConversationLabel:
        """A conversation as its owner calls it.

        Raises:
            NotFoundError: there is none, or more than one, of that name.
        """
        with self.recorder.store.reading() as tx:
            return _label(tx, conversation_named(tx, conversation).uid)

    def tag(self, conversation: str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> ConversationLabel:
        """Give a conversation tags, and take some from it; search finds what was said in it by them.

        Raises:
            NotFoundError: there is no such conversation.
            UsageError: a limit is passed.
        """
        new, gone = checked_tags(self.recorder.clean(several(add))), set(checked_tags(remove))
        return self._change(
            conversation,
            lambda _tx, said: replace(said, tags=checked_tags(tag for tag in (*said.tags, *new) if tag not in gone)),
        )

    def entitle(self, conversation: str, title: str) -> ConversationLabel:
        """Give a conversation a title that no import changes; empty takes it back.

        Raises:
            NotFoundError: there is no such conversation.
            UsageError: the title is too long.
        """
        clean = " ".join(self.recorder.clean(title).split())
        if len(clean) > _MAX_TITLE_CHARS:
            raise UsageError(f"A title has at most {_MAX_TITLE_CHARS} characters, not {len(clean)}.")
        return self._change(conversation, lambda _tx, said: replace(said, title=clean))

    def move(self, conversation: str, project: str | None) -> ConversationLabel:
        """Say which project a conversation belongs to, by its key, short name or folder; None takes it back.

        Raises:
            NotFoundError: there is no such conversation, or no such project.
        """
        return self._change(conversation, lambda tx, said: replace(said, project=_project(tx, project)))

    def used(self) -> dict[str, int]:
        """How many conversations have each tag, the most used first."""
        with self.recorder.store.reading() as tx:
            found = used_tags(tx)
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def _change(self, conversation: str, change: Callable[[Transaction, Labelled], Labelled]) -> ConversationLabel:
        with self.recorder.store.reading() as tx:
            uid = conversation_named(tx, conversation).uid

        def changed(tx: Transaction, _ingest: object) -> Sequence[Labelled]:
            # It may have been forgotten meanwhile.
            conversation_named(tx, uid)
            before, moment = own_label(tx, uid).label, self.recorder.now()
            said = change(tx, before or Labelled(uid, moment))
            if before is None and not (said.title or said.tags or said.project):
                return []
            moment = moment if before is None else max(moment, before.at + TICK)
            return [] if said == before else [replace(said, at=moment)]

        self.recorder.admit([uid], changed)
        return self.show(uid)


def _label(tx: Transaction, uid: str) -> ConversationLabel:
    said = own_label(tx, uid)
    title, tags, project = (said.label.title, said.label.tags, said.label.project) if said.label else ("", (), None)
    own = None if said.project_id is None else project_identity(tx, said.project_id)
    shown = project or own
    return ConversationLabel(
        uid, title or said.title, tags, shown.key if shown else None, bool(title), project is not None
    )


def _project(tx: Transaction, named: str | None) -> ProjectIdentity | None:
    if not named:
        return None
    if named.startswith((".", "/", "~")):
        return identify_project(named)
    return project_identity(tx, project_row(tx, named))
