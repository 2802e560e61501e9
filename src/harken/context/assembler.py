"""One context out of everything that is remembered: for a question, or as a warning before work begins.

Source: SPEC-002-18; where we differ, docs/adr/0012-assembler.md says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harken.config.sections import RagConfig
from harken.config.settings import Settings
from harken.context.compose import FormattedContext, Items, Plan, checked, compose, gather, own_first, ranked
from harken.context.dedupe import distinct
from harken.context.past import past_items
from harken.context.premortem import premortem
from harken.context.rules import RULE, rule_items
from harken.errors import ContextAssemblyError, InvalidContextTypeError
from harken.model.arguments import CONTEXT_TYPES
from harken.record.scope import scope_of
from harken.search.past import PastConversations
from harken.search.retrieval_log import RetrievalLog
from harken.search.search import Searcher
from harken.search.session import SearchSession
from harken.sources.searches import SourceSearcher
from harken.storage.projects import ProjectScope
from harken.text.shown import counted

HEADINGS: Mapping[str, str] = {RULE: "Standing rules", **{name: name.capitalize() for name in CONTEXT_TYPES}}
# They are few and short.
_RULES_WEIGHT = 1.0
# Of one source among several, fewer candidates are fused than of a whole store.
_LEAST_CANDIDATES, _CANDIDATES_OF_EACH = 50, 3


@dataclass(frozen=True, slots=True)
class ContextAssembler:
    """Puts contexts together; reached as `Harken.assembler`, its verbs also as `Harken`'s own."""

    searcher: Searcher
    settings: Callable[[], Settings]

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
        """Put together the knowledge of several sources about a query, most relevant first, each thing once.

        Args:
            query: what context is needed for.
            context_types: any of `memories`, `code`, `experiences`, `values`, `commits`, `documents`, `conversations`.
            limit: how many items of each are looked at, 1 to 50.
            max_tokens: for the whole context; a soft limit, which the first item of each type may pass.
            include_untrusted: whether what is not to be trusted may be in it, where the settings allow that.
            project: that it is for, by its key, short name or folder: code, commits and documents are only of this
                one, and all else as the setting `rag.scope` has it.
            directory: the folder that it is for, where no project is named: then code and the like are as all else.
        Returns:
            The context; empty where nothing was found. A source that fails is left out, which the context says.
        Raises:
            InvalidContextTypeError: there is no such type, or none is named.
            UsageError: the limit or the tokens are not possible.
            NotFoundError: there is no such project.
        """
        types = _checked_types(context_types)
        checked(limit, max_tokens)
        settings = self.settings()
        config = settings.assemble
        allowed = settings.search.include_untrusted and include_untrusted
        projects = self._projects(project, directory)
        with self._session(limit, projects, include_untrusted=allowed) as session:
            asks = self._asks(session, settings, query, limit, project)
            asked, failed = gather({name: asks[name] for name in (RULE, *types)})
        found = own_first(asked)
        kept = {
            id(item)
            for item in distinct([item for items in found.values() for item in items], config.duplicate_similarity)
        }
        once_each = {name: [item for item in items if id(item) in kept] for name, items in found.items()}
        plan = Plan("Context", HEADINGS, {RULE: _RULES_WEIGHT, **config.weights.model_dump()}, _counted)
        return compose(once_each, failed, plan, max_tokens, config)

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
        """Warn of failures in work like this: failures first, then surprises, their causes, and principles.

        Args:
            domain: one of `harken.model.experiences.DOMAINS`.
            strategy: one of `STRATEGIES`; how it has done is told as well.
            limit: how many of each kind are looked at, 1 to 50.
            max_tokens: for the whole context; a soft limit.
            about: what has gone wrong just now; only what is near to it is told. Empty tells of the whole domain.
            project: that the work is in, by its key or short name.
            directory: where the work is, where no project is named.
        Returns:
            The warnings; empty where there is no experience of the domain yet, or none that is near.
        Raises:
            UsageError: the domain, the strategy, the limit or the tokens are not possible.
            NotFoundError: there is no such project.
        """
        checked(limit, max_tokens)
        # What a warning is about, its domain says; likeness to a question that nobody asked only orders.
        changes = {} if about else {"relevance_threshold": -1.0}
        with self._session(limit, self._projects(project, directory), **changes) as session:
            options = limit, max_tokens, self.settings().assemble, session.now, about
            return premortem(self._sources(session), domain, strategy, *options)

    def _asks(
        self, session: SearchSession, settings: Settings, query: str, limit: int, project: str | None
    ) -> Mapping[str, Callable[[], Items]]:
        sources, shown = self._sources(session), partial(ranked, config=settings.assemble, now=session.now)
        rag = settings.rag.model_copy(update={"enabled": True, "conversation_limit": limit})
        return {
            RULE: lambda: rule_items(session, query, settings.rag),
            "memories": lambda: shown(sources.search_memories(query, limit)),
            "code": lambda: shown(sources.search_indexed("code", query, limit, project=project)),
            "experiences": lambda: shown(sources.search_experiences(query, axis="full", limit=limit)),
            "values": lambda: shown(sources.search_values(query, limit)),
            "commits": lambda: shown(sources.search_indexed("commit", query, limit, project=project)),
            "documents": lambda: shown(sources.search_indexed("document", query, limit, project=project)),
            "conversations": lambda: self._past(session, rag, query),
        }

    def _projects(self, project: str | None, directory: str | Path | None) -> ProjectScope:
        return scope_of(self.searcher.sessions.store, self.settings().rag.scope, project, directory)

    def _session(self, limit: int, projects: ProjectScope, **changes: float | bool) -> SearchSession:
        """One view of the store, with each query embedded once, for all searches of a call."""
        sessions = self.searcher.sessions
        fused = min(sessions.config().candidates, max(_LEAST_CANDIDATES, _CANDIDATES_OF_EACH * limit))
        return sessions.open(projects, candidates=fused, **changes)

    def _sources(self, session: SearchSession) -> SourceSearcher:
        port = self.searcher.port
        return SourceSearcher(session.view, port(session), session.projects, lambda: nullcontext(session), port)

    def _past(self, session: SearchSession, rag: RagConfig, query: str) -> Items:
        sessions = self.searcher.sessions
        recall = PastConversations(sessions, lambda: rag, RetrievalLog(sessions.store)).search(query, session=session)
        if recall.error_class:
            raise ContextAssemblyError(f"Past conversations were not searched: {recall.error_class}.")
        return past_items(recall, session.config.untrusted_weight, session.now)


def _checked_types(context_types: Sequence[str]) -> tuple[str, ...]:
    """The types, each once, in the order of their sections."""
    if not context_types or isinstance(context_types, str):
        raise InvalidContextTypeError(f"Name at least one context type, in a list. Types: {', '.join(CONTEXT_TYPES)}.")
    for name in context_types:
        if name not in CONTEXT_TYPES:
            raise InvalidContextTypeError(f"There is no context type '{name}'. Types: {', '.join(CONTEXT_TYPES)}.")
    return tuple(name for name in CONTEXT_TYPES if name in context_types)


def _counted(items: Items) -> str:
    return f"{counted(len(items), 'item')} from {counted(len({item.source for item in items}), 'source')}"
