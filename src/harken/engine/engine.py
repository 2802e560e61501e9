"""Harken: the verbs that the command line, servers and libraries share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from harken.engine.parts import Parts
from harken.errors import NotFoundError, UsageError
from harken.model.arguments import check_names, several
from harken.model.conversations import ExchangeStatus, Message, MessageType, Role, SearchScope, Segment, Trust
from harken.model.lookups import SearchResult
from harken.record.ids import conversation_uid

if TYPE_CHECKING:
    from harken.chat.tasks import Answer, TaskRun
    from harken.context.builder import ContextSession
    from harken.context.compose import FormattedContext
    from harken.context.layers import ChatContext, Pending
    from harken.importers.importer import ImportReport, Progress
    from harken.importers.parsed import TranscriptFormat
    from harken.jobs.job import Worker
    from harken.model.lookups import Surroundings
    from harken.search.recall import Recall

_BY_TOOLS = {Role.ASSISTANT: MessageType.TOOL_CALL, Role.TOOL: MessageType.TOOL_RESULT}


class Harken(Parts):
    """Memory in one place: records, imports, embeds, searches, forgets; see `Parts` for what it is opened with.

    Safe to use from several threads; several processes may open the same home at once.
    """

    def record_message(
        self,
        conversation: str,
        role: Role | str,
        text: str,
        *,
        channel: str = "library",
        author: str | None = None,
        type: MessageType | str = MessageType.TEXT,
        call_id: str | None = None,
        tool_name: str | None = None,
        directory: str | Path | None = None,
        trust: Trust | None = None,
        metadata: Mapping[str, Any] | None = None,
        once: str | None = None,
    ) -> Message:
        """Record one message; when this returns it survives the process.

        The text is kept whole, secrets and `<private>` parts taken out first. The conversation goes by the caller's own
        name in its channel, and is made if it is new: then the working directory tells its project. `call_id` links a
        tool call with its result: without a type, the assistant's words with one are a call, and the tool's its result.
        Metadata are small JSON-able facts. Without trust, it is the role's own: a person is believed more than a tool.
        `once` is the caller's own name of this very message: recorded again under it, with the same words, it is the
        message that is there.

        Raises:
            StoreError: it was not kept; the call may be repeated, and with `once` never keeps it twice.
            UsageError: there is no such role, type or trust, or the text is none.
        """
        from harken.record.project import identify_project
        from harken.record.recorder import Batch, NewConversation, NewMessage

        if not isinstance(text, str):
            raise UsageError(f"A message's text is a str, not {text.__class__.__name__}; of parts, give their text.")
        told: dict[str, Any] = {"author": author, "call_id": call_id, "tool_name": tool_name, "once": once}
        check_names(**{what: name for what, name in told.items() if name is not None})
        who, kind = Role.of(role), MessageType.of(type)
        kind = _BY_TOOLS.get(who, kind) if call_id and kind is MessageType.TEXT else kind
        by_tool = who is Role.TOOL or kind is MessageType.TOOL_RESULT
        trusted = Trust.of(trust or (Trust.TOOL if by_tool else Trust.OWNER if who is Role.USER else Trust.AGENT))
        told |= {"author": self._author(who, author), "origin": told.pop("once") or None}
        message = NewMessage(who, text, kind, trust=trusted, metadata=metadata or {}, **told)
        place = NewConversation(channel, conversation, project=identify_project(directory))
        recorded = self.recorder.record([Batch(place, [message])])
        if recorded.known:
            known = self.show(self.recorder.prepare(place.uid, message).uid, 0).message
            if known is not None:
                return known
        if not recorded.messages:
            what = "This message" if recorded.forgotten and once else f"Conversation {conversation}"
            raise NotFoundError(f"{what} was forgotten; choose another name for a new one.")
        return recorded.messages[0]

    def _author(self, _role: Role, named: str | None) -> str | None:
        """Who has said a message."""
        return named

    def end_exchange(
        self,
        conversation: str,
        status: ExchangeStatus | str = ExchangeStatus.COMPLETED,
        *,
        channel: str = "library",
        error: str | None = None,
    ) -> None:
        """End the conversation's exchange in progress.

        Raises:
            NotFoundError: there is no such conversation.
            UsageError: there is no such status.
        """
        uid = conversation_uid(channel, conversation)
        self.recorder.end_exchange(uid, ExchangeStatus.of(status), error, f"{conversation} in channel {channel}")

    def new_segment(self, conversation: str, *, channel: str = "library") -> Segment:
        """Begin a new segment of a conversation.

        Raises:
            NotFoundError: there is no such conversation.
        """
        return self.recorder.new_segment(
            conversation_uid(channel, conversation), f"{conversation} in channel {channel}"
        )

    def run_task(
        self, name: str, message: str, answer: Answer | None = None, deliver: str | None = None, *, system: str = ""
    ) -> TaskRun:
        """Run a scheduled task once, and record the run; see `harken.chat.tasks.Tasks.run`.

        Raises:
            ConfigError: there is nothing that answers.
            NotFoundError: there is no conversation to deliver to, or the task was forgotten.
        """
        return self.tasks.run(name, message, answer, deliver, system=system)

    def transcript_formats(self) -> dict[str, TranscriptFormat]:
        """Every format that can be imported, by name."""
        from harken.importers.formats import formats

        return formats(self._env, Path.home())

    def import_transcripts(
        self,
        format_name: str,
        paths: Sequence[str | Path],
        *,
        progress: Callable[[Progress], None] = lambda _progress: None,
        report: ImportReport | None = None,
        as_mine: bool = False,
        is_live: bool = False,
    ) -> ImportReport:
        """Import transcripts; what was imported before is known and not added again.

        Paths are of files or folders; `progress` is called after every batch, and a given report filled as the work
        goes on. For `as_mine` (the files are the owner's own) and `is_live` (they are of what is being said now, which
        a configured model may summarize unlike history) see `harken.importers.importer.Importer`.

        Raises:
            UsageError: there is no such format, or a path does not exist.
            ExportError: a file is an export of Harken (of format `jsonl`), and not whole.
        """
        from harken.importers.importer import Importer

        known = self.transcript_formats()
        if format_name not in known:
            raise UsageError(f"There is no format '{format_name}'. Formats: {', '.join(known)}")
        places = [Path(path).expanduser() for path in several(paths)]
        if missing := [place for place in places if not place.exists()]:
            raise UsageError(f"{missing[0]} does not exist.")
        importer = Importer(self.recorder, progress, self.maintenance.forget, as_mine, is_live, self.spaces.here)
        return importer.run(known[format_name], places, report)

    def embed(self, progress: Callable[[int, int], None] = lambda _done, _all: None, patient: bool = False) -> int:
        """Give every entry that waits for one its vector, in this thread; how many were stored.

        `progress` is called with (done, in all) after each batch. If patient, wait for what backs off after a failure,
        or is leased to another process, until all is settled.

        Raises:
            ProviderError: the model cannot be opened, or, unless patient, its endpoint fails.
            MissingExtraError: what it needs is not installed.
        """
        return self.background.embed(progress, patient)

    def start_worker(self) -> Worker | None:
        """Embed and summarize in the background from now on; gives the embedder's worker, None where there is no model.

        Raises:
            ConfigError: the settings name a model that cannot be; the workers run all the same.
            MissingExtraError, ModelFileError: a model needs what is not there; likewise.
        """
        return self.background.start()

    def build_context(
        self,
        session: str | ContextSession,
        pending: Sequence[Pending],
        is_subagent: bool = False,
        task_name: str | None = None,
        *,
        channel: str = "library",
        budget_tokens: int | None = None,
        system_prompt: str | None = None,
        include_untrusted: bool = True,
        directory: str | Path | None = None,
    ) -> ChatContext:
        """Everything that the model gets to see in its next call; see `Chats.build`.

        A session is the caller's own name for the conversation, in its channel, or one that `chats` found. Pending is
        what the user says now, recorded already or not. Budget and system prompt are the settings' where they are None.
        What is not to be trusted is recalled only where the settings allow that, too. The conversation's project, or
        the directory's where it has none, says what of other projects comes back (`rag.scope`).

        Raises:
            UsageError: the budget is none, or a subagent has no task.
        """
        found = self.chats.session(session, channel)
        options: dict[str, Any] = {"budget_tokens": budget_tokens, "include_untrusted": include_untrusted}
        options["directory"] = directory
        return self.chats.build(found, several(pending), is_subagent, task_name, system_prompt=system_prompt, **options)

    def assemble_context(
        self,
        query: str,
        context_types: Sequence[str],
        limit: int = 20,
        max_tokens: int = 2000,
        *,
        include_untrusted: bool = True,
        project: str | None = None,
        directory: str | Path | None = None,
    ) -> FormattedContext:
        """One text out of several sources on a query; see `ContextAssembler.assemble_context`."""
        options: dict[str, Any] = {"include_untrusted": include_untrusted, "project": project, "directory": directory}
        return self.assembler.assemble_context(query, context_types, limit, max_tokens, **options)

    def get_premortem_context(
        self,
        domain: str,
        strategy: str | None = None,
        limit: int = 10,
        max_tokens: int = 1500,
        about: str = "",
        *,
        project: str | None = None,
        directory: str | Path | None = None,
    ) -> FormattedContext:
        """Failures in work of this kind; see `ContextAssembler.get_premortem_context`."""
        where: dict[str, Any] = {"project": project, "directory": directory}
        return self.assembler.get_premortem_context(domain, strategy, limit, max_tokens, about, **where)

    def auto_rag(
        self, session: str | ContextSession, query: str, *, channel: str = "library", excluded: Sequence[str] = ()
    ) -> Recall:
        """Earlier words of the conversation's segment that matter now; ids in `excluded` never come back."""
        return self.chats.recall(self.chats.session(session, channel), query, several(excluded))

    def search(
        self,
        query: str,
        *,
        scope: SearchScope | None = None,
        limit: int | None = None,
        mode: str = "hybrid",
        rerank: bool | None = None,
        directory: str | Path | None = None,
        conversation: str | None = None,
        threshold: float | None = None,
    ) -> SearchResult:
        """Find the answers to a query, best first; see `harken.search.search.Searcher`.

        Conversations and saved records are searched; code, commits and documents where the scope names them as sources.
        From a directory, or a conversation's project, others are seen as `rag.scope` has it; from nowhere, all alike.
        A threshold stands in place of the one in force: the similarity that what shares no word with the query needs.

        Raises:
            UsageError: the limit, the mode or the threshold is not possible.
        """
        if threshold is not None and not -1.0 <= threshold <= 1.0:
            raise UsageError(f"threshold must be from -1 to 1, as a cosine is, not {threshold:g}.")
        options: dict[str, Any] = {"rerank": rerank, "threshold": threshold}
        return self._search(query, scope, limit, mode, directory=directory, conversation=conversation, **options)

    def show(self, uid: str, reach: int = 5) -> Surroundings:
        """A message among its neighbours, an exchange, or a whole conversation, by id or the beginning of one.

        Raises:
            NotFoundError: it names nothing, or more than one thing.
        """
        from harken.storage.conversations import look_up

        with self.store.reading() as tx:
            return look_up(tx, uid, reach)

    def close(self) -> None:
        """Stop the workers, keep what was derived, give everything back."""
        opened = vars(self)
        if "background" in opened:
            self.background.stop()
        if "_language_model" in opened:
            self._language_model.close()
        if "chats" in opened:
            self.chats.retrievals.write()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
