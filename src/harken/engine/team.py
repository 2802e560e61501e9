"""Team: who speaks by which key, and the memory that they get to see and to write."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from harken.config.settings import environment, load_settings
from harken.engine.engine import Harken
from harken.engine.erasing import Erased, Erasing, ExportedPerson
from harken.engine.members import Members, require_team_admin
from harken.engine.requests import Requests
from harken.engine.sharing import Sharing
from harken.engine.team_lookups import Reach
from harken.engine.team_memory import Seat, TeamMemory
from harken.engine.team_workers import TeamWorkers, retain
from harken.errors import KeyRefusedError, StoreError, UsageError
from harken.log import Log
from harken.model.provenance import Provenance
from harken.model.team import COMMON, EVERY_SCOPE, Access, KeyScope, Principal, PrincipalKind, Speaker, TeamSpace
from harken.record.forget import scrub_for
from harken.storage.entries import has_entries
from harken.storage.open import open_server
from harken.storage.team import people
from harken.storage.team.keys import USED_EVERY, note_used
from harken.storage.team.origins import NamedOrigin, drop_origins, origins_of
from harken.storage.team.spaces import NOTHING, drop_space, list_spaces, put_retention, readable_spaces
from harken.storage.vectors import answering_space
from harken.text.characters import sha256_of

if TYPE_CHECKING:
    from harken.providers.embedder import Embedder
    from harken.record.doctor import Finding

OPERATOR = "operator"
# Spaces that nobody has asked for so long are let go, and looked for so often.
_IDLE_SECONDS, _LOOKED_EVERY_SECONDS = 600.0, 30.0
_READERS = 16
# Of so many spaces one is looked for that a recall can be tried in.
_WARMED_UP_BY = 100

# What the doctor finds in every space alike.
_OF_SERVER = ("database", "rights", "languages", "left")

_log = Log(__name__)


@dataclass(slots=True)
class _Opened:
    """An open space, and when somebody last asked for it."""

    harken: Harken
    used_at: float


class Team(Members):
    """The memory of a team on a server: one object for a process, safe to use from several threads.

    Args:
        home: folder of settings, as for `Harken`.
        settings: values above the settings file and the environment; `store` has to be a server's URL.
        env: the environment; None takes the process's own.
        embedder: stands in place of the configured model.
    Attributes:
        requests: what members have asked: repeats, and the audit.
    Raises:
        ConfigError: the store is no server, or a setting is out of range.
        StoreError: the store cannot be opened.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        embedder: Embedder | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._env = environment() if env is None else env
        self._open: dict[str, Any] = {"home": home, "settings": settings, "env": self._env, "now": now}
        loaded = load_settings(home, self._env, settings).settings
        self.name = loaded.tenant
        self._server = open_server(loaded.store, loaded.tenant)
        super().__init__(self._server.control_tables(), now, self._holds_something)
        try:
            # Its models are those of all spaces.
            self._first = Harken(**self._open, embedder=embedder, store=self._server.of_tenant(self.name))
        except BaseException:
            self._server.close()
            raise
        self.requests = Requests(self._control, loaded.serve.audit_days, now)
        self._lock = threading.RLock()
        self._spaces: dict[str, _Opened] = {}
        self._looked_at = time.monotonic()
        self._behind = ThreadPoolExecutor(1, "harken-team")
        self._readers = ThreadPoolExecutor(_READERS, "harken-spaces")
        self._noted: dict[str, datetime] = {}
        self._sharing = Sharing(self._control, self.opened, now)
        self._erasing = Erasing(self._control, self.opened, self._close_space, now)
        ports = self.opened, self._all_spaces, self._server.listen_to_all, self.retain
        self._workers = TeamWorkers(self.name, *ports)

    def operator(self, team: str | None = None) -> Speaker:
        """Whoever holds the database: may manage everything in a team, that of the settings unless one is named.

        They see no private space by this.
        """
        name = team or self.name
        with self._control.reading(name) as tx:
            shared = [space for space in list_spaces(tx) if not space.is_private]
        if COMMON not in [space.id for space in shared]:
            shared.insert(0, TeamSpace(COMMON, name, COMMON))
        seen = tuple((space, Access.ADMIN) for space in shared)
        principal = Principal(OPERATOR, name, PrincipalKind.SERVICE, OPERATOR, self._now())
        return Speaker(principal, None, EVERY_SCOPE, seen, is_operator=True)

    def speaker(self, token: str) -> Speaker:
        """Who speaks by a key, looked up anew each time, so that a revoked key is refused from then on.

        Raises:
            KeyRefusedError: it is unknown, has expired, or was revoked.
        """
        now = self._now()
        with self._control.of_key(sha256_of(token)) as found:
            if found is None or found[1].revoked or (found[1].expires and found[1].expires <= now):
                raise KeyRefusedError
            tx, key = found
            principal = people.principal_of(tx, key.principal)
            if principal is None:
                raise KeyRefusedError
            seen = readable_spaces(tx, principal.id)
        if key.spaces is not None:
            seen = [(space, access) for space, access in seen if space.id in key.spaces]
        if key.last_used is None or now - key.last_used >= USED_EVERY:
            self._note_used(principal.team, key.id, now)
        return Speaker(principal, key, key.scopes, tuple(seen))

    def _note_used(self, team: str, key_id: str, now: datetime) -> None:
        """Have it noted behind the answer that a key was used."""
        with self._lock:
            if (before := self._noted.get(key_id)) is not None and now - before < USED_EVERY:
                return
            self._noted[key_id] = now

        def note() -> None:
            try:
                with self._control.writing(team) as tx:
                    note_used(tx, key_id, now)
            except StoreError as error:
                _log.warning("key_use_not_noted", error_class=type(error).__name__)

        # Where the team is being closed, it is noted with the next use.
        with suppress(RuntimeError):
            self._behind.submit(note)

    def speaker_of(self, email: str) -> Speaker:
        """Who has logged in with an address that a provider has vouched for.

        Raises:
            KeyRefusedError: no principal of the team has that address.
        """
        with self._control.reading(self.name) as tx:
            principal = people.principal_of_email(tx, email.strip().lower())
            if principal is None:
                raise KeyRefusedError
            seen = readable_spaces(tx, principal.id)
        return Speaker(principal, None, EVERY_SCOPE, tuple(seen))

    def memory(self, speaker: Speaker, space: str | None = None) -> Harken:
        """The memory as a speaker gets to see it; what is written goes to their own space, or the one named.

        Reading sees the union of the spaces that the speaker may read. The object is the team's: never close it, and
        ask for it anew with each request. In a space that they may only read, whatever writes is refused.

        Raises:
            NotFoundError: there is no space of that name that they may see.
        """
        named = speaker.own if space is None else speaker.space(space)
        access = next(access for each, access in speaker.spaces if each.id == named.id)
        others = [each for each, _ in speaker.spaces if each.id != named.id]

        def read() -> list[tuple[str, Harken]]:
            seats = [Seat(speaker, each, Access.READ) for each in others]
            return [(seat.space.id, TeamMemory(self.opened(seat.space), seat)) for seat in seats]

        whose = partial(self._whose_words, speaker, named)
        team, sharing = speaker.principal.team, self._sharing
        copies = partial(sharing.copies, team, named.id), partial(sharing.forget_copies, team)
        reach = Reach(named.id, read, self._readers, whose, *copies)
        return TeamMemory(self.opened(named), Seat(speaker, named, access), reach)

    def share(self, by: Speaker, uid: str, to: str) -> str:
        """Copy a message, exchange, conversation, memory or ended experience into a space, by its id or how it begins.

        It says there whose words they are, and by whom and when they were shared. What has a copy there already gets
        no second one.

        Returns:
            The id of the copy: a message's, a memory's, or that of the conversation which holds what was copied.
        Raises:
            NotFoundError: there is nothing of that id, or no space of that name, that they may see.
            ScopeError: they may not write there.
            UsageError: it stands there already, or is an experience that is still open.
        """
        return self._sharing.share(by, uid, to)

    def unshare(self, by: Speaker, uid: str, space: str | None = None) -> list[str]:
        """Forget the copies of something, or those in one space, by the id of either; the ids of what is gone.

        Who said it, who shared it and who administers the space may do so.

        Raises:
            NotFoundError: there is no such copy, or none that they may take back.
        """
        return self._sharing.unshare(by, uid, space)

    def export_principal(self, by: Speaker, principal: str, target: Path) -> ExportedPerson:
        """Write everything of a principal to new files: oneself, or whoever manages the team.

        Raises:
            NotFoundError: there is nobody of that name.
            UsageError: a file exists.
        """
        by.require(KeyScope.READ)
        return self._erasing.export(self._person(by, principal), target)

    def erase_principal(self, by: Speaker, principal: str) -> Erased:
        """Erase a principal: no word of theirs stays in any table, nor their name.

        Their private space goes whole. In shared spaces goes what they have said, saved, set or changed, copies that
        anybody has made of their words among it; what they have shared of others' words stays, without their name.

        Raises:
            NotFoundError: there is nobody of that name.
        """
        by.require(KeyScope.FORGET)
        return self._erasing.erase(self._person(by, principal))

    def _person(self, by: Speaker, name: str) -> Principal:
        """The principal of a name or id, if it is who asks, or they manage the team."""
        if name in (by.principal.id, by.principal.name) and not by.is_operator:
            return by.principal
        require_team_admin(by)
        with self._control.reading(by.principal.team) as tx:
            return people.find_principal(tx, name)

    def delete_space(self, by: Speaker, space: str) -> TeamSpace:
        """Delete a shared space with everything in it.

        Raises:
            NotFoundError: there is none of that name that they may see.
            UsageError: it is the common one, or somebody's private space.
        """
        by.require(KeyScope.ADMIN, KeyScope.FORGET)
        found = by.space(space, Access.ADMIN)
        if found.id == COMMON:
            raise UsageError("common is the whole team's. Forget what is in it: harken --space common forget")
        if found.is_private:
            raise UsageError(f"{found.name} cannot be deleted. A private space goes with its owner: harken erase NAME")
        with self._control.writing(found.team) as tx:
            put_retention(tx, found.id, NOTHING)
        self._erasing.drop(found)
        with self._control.writing(found.team) as tx:
            drop_origins(tx, found.id)
            drop_space(tx, found.id)
        return found

    def retain(self) -> int:
        """Forget what is older than its space keeps it, and free what was forgotten; how many records were too old."""
        spaces = self._all_spaces()
        count = sum(
            retain(self.opened(space), space.retention_days, self._now())
            for space in spaces
            if space.retention_days is not None
        )
        self._free(spaces)
        return count

    def _free(self, spaces: Sequence[TeamSpace]) -> None:
        scrub_for(map(self._server.of_tenant, {self.name, *(space.tenant for space in spaces)}), self._server)

    def _all_spaces(self) -> list[TeamSpace]:
        with self._control.reading(self.name) as tx:
            return list_spaces(tx)

    def start_workers(self) -> None:
        """Embed and summarize in all spaces in the background from now on, and forget what is kept no longer."""
        self._workers.start()

    def _whose_words(
        self, speaker: Speaker, here: TeamSpace, asked: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Provenance | None]:
        """Whose words things are, each named by its space and its ids, the nearest first; None of one's own."""
        if not asked:
            return []
        spaces = {space.id: space for space, _ in speaker.spaces}
        with self._control.reading(speaker.principal.team) as tx:
            known = origins_of(tx, {uid for _, uids in asked for uid in uids})
        return [
            _provenance(speaker, spaces[each], here, [known.get((each, uid)) for uid in uids]) for each, uids in asked
        ]

    def opened(self, space: TeamSpace) -> Harken:
        """A space as it is, without a speaker; the team's, and never to be closed."""
        now = time.monotonic()
        with self._lock:
            if now - self._looked_at > _LOOKED_EVERY_SECONDS:
                self._let_go(now)
            known = self._spaces.get(space.tenant)
            if known is None:
                if space.tenant == self.name:
                    known = _Opened(self._first, now)
                else:
                    known = _Opened(self._opened(space.tenant), now)
                self._spaces[space.tenant] = known
            known.used_at = now
            return known.harken

    def _opened(self, tenant: str) -> Harken:
        return Harken(**self._open, store=self._server.of_tenant(tenant), beside=self._first)

    def _let_go(self, now: float) -> None:
        """Close spaces that nobody has asked for in a while; whoever still has one can go on with it."""
        self._looked_at = now
        for tenant, known in list(self._spaces.items()):
            if now - known.used_at > _IDLE_SECONDS and known.harken is not self._first:
                del self._spaces[tenant]
                known.harken.close()

    def _close_space(self, space: TeamSpace) -> None:
        with self._lock:
            known = self._spaces.pop(space.tenant, None)
        if known is not None and known.harken is not self._first:
            known.harken.close()

    def _holds_something(self, space: TeamSpace) -> bool:
        with self._server.of_tenant(space.tenant).reading() as tx:
            return has_entries(tx)

    @property
    def passes_walls(self) -> str:
        """Why the database does not hold this login to the rows of one space at a time; empty where it does."""
        return self._control.passes_walls()

    def warm_up(self) -> None:
        """Load what a recall needs, by a space that has vectors where there is one; returns once it is there.

        Raises:
            ProviderError: the model cannot be loaded.
        """
        memories = map(self.opened, self._all_spaces()[:_WARMED_UP_BY])
        loading = next((each for each in memories if _has_vectors(each)), self._first).chats.warm_up()
        if loading is not None:
            loading.result()

    def queues(self) -> dict[str, int]:
        """How much work waits in the spaces that are open in this process, by kind."""
        with self._lock:
            opened = [known.harken for known in self._spaces.values()]
        waiting: Counter[str] = Counter()
        for harken in opened:
            waiting.update({report.name: report.waiting for report in harken.background.status()})
        return dict(waiting)

    def close(self) -> None:
        """Stop the workers and give everything back."""
        self._workers.stop()
        self._behind.shutdown()
        self.requests.close()
        self._readers.shutdown()
        with self._lock:
            for known in self._spaces.values():
                if known.harken is not self._first:
                    known.harken.close()
            self._spaces.clear()
        self._first.close()
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def examine(team: Team, fix: bool = False) -> list[Finding]:
    """Everything that does not agree in any space of a team, with the space's name; see `Maintenance.doctor`."""
    spaces = team._all_spaces()
    team._free(spaces)
    found = team._first.maintenance.doctor(fix)
    for space in spaces:
        if space.tenant != team.name:
            with team._opened(space.tenant) as memory:
                examined = memory.maintenance.doctor(fix)
            of_it = (each for each in examined if each.check not in _OF_SERVER)
            found += [replace(each, problem=f"{space.name}: {each.problem}") for each in of_it]
    return found


def _has_vectors(memory: Harken) -> bool:
    with memory.store.reading() as tx:
        return answering_space(tx) is not None


def _provenance(
    speaker: Speaker, space: TeamSpace, here: TeamSpace, found: Sequence[NamedOrigin | None]
) -> Provenance | None:
    known = [each for each in found if each is not None]
    if space.is_private and not known:
        return None
    by = next((each for each in known if each.origin.principal), None)
    shared = next((each for each in known if each.origin.sharer is not None), None)
    is_mine = by is not None and by.origin.principal == speaker.principal.id
    if space.is_private and is_mine:
        return None
    is_alone = [each.name for each, _ in speaker.spaces].count(space.name) == 1
    return Provenance(
        space.name if is_alone else space.id,
        by.principal if by else "",
        is_mine,
        space.id == here.id,
        shared.sharer if shared else "",
        shared.origin.at if shared else None,
    )
