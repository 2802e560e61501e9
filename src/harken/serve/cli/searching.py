"""`harken search` and `harken show`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click
from rich.text import Text

from harken.model.conversations import Hit, Message, SearchResult, SearchScope, Trust
from harken.serve.cli.session import CommandSession, json_option, print_json, untrusted_option, with_session
from harken.serve.facts.said import hit_facts, surroundings_facts
from harken.text.dates import parse_since, parse_until

_EXCERPT = 280
_CLOCKS_DIFFER_SECONDS = 86_400
_MODES = ("hybrid", "keyword", "semantic")
_ROLES = ("user", "assistant", "tool")


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--source", multiple=True, help="Only this kind of entry; may be given several times.")
@click.option("--project", help="Only this project: its short name, key or folder.")
@click.option("--conversation", help="Only this conversation: its id, or the beginning of it.")
@click.option("--role", multiple=True, type=click.Choice(_ROLES), help="Only what this role said.")
@click.option("--since", help="Not before this: 2026-05-08, yesterday, '2 weeks ago', 'May 2023'.")
@click.option("--until", help="Not after this; a day counts to its end.")
@click.option("--limit", type=click.IntRange(1, 1000), help="At most so many hits.")
@click.option("--mode", type=click.Choice(_MODES), default="hybrid", help="Words, meaning, or both.")
@click.option("--rerank/--no-rerank", default=None, help="Have a local cross-encoder judge the best ten again.")
@click.option("--explain", is_flag=True, help="Show what each hit's score is made of.")
@untrusted_option
@json_option
@with_session
def search(
    session: CommandSession,
    query: tuple[str, ...],
    source: tuple[str, ...],
    project: str | None,
    conversation: str | None,
    role: tuple[str, ...],
    since: str | None,
    until: str | None,
    limit: int | None,
    mode: str,
    rerank: bool | None,
    explain: bool,
    no_untrusted: bool,
    as_json: bool,
) -> None:
    """Find what was said or saved, by word and by meaning; code, commits and documents with --source."""
    now = datetime.now(UTC)
    scope = SearchScope(
        sources=source,
        project=project,
        conversation=conversation,
        roles=role,
        since=parse_since(since, now) if since else None,
        until=parse_until(until, now) if until else None,
        without_untrusted=no_untrusted,
    )
    with session.engine() as harken:
        result = harken.search(" ".join(query), scope=scope, limit=limit, mode=mode, rerank=rerank)
        titles = harken.chats.titles([hit.entry.conversation_uid for hit in result.hits if hit.entry.conversation_uid])
    if as_json:
        print_json({"hits": [hit_facts(hit) for hit in result.hits], "notes": list(result.notes)})
    else:
        _print_result(session, result, titles, explain)


@click.command()
@click.argument("identifier", metavar="ID")
@click.option("--around", type=click.IntRange(0, 500), default=5, help="How many messages on each side.")
@json_option
@with_session
def show(session: CommandSession, identifier: str, around: int, as_json: bool) -> None:
    """Show a message in its surroundings, an exchange, or a whole conversation."""
    with session.engine() as harken:
        found = harken.show(identifier, around)
    head = found.conversation
    if as_json:
        print_json(surroundings_facts(found))
        return
    session.out.print(Text(f"{head.title or head.channel} · {head.uid}", style="bold"))
    if found.before:
        session.out.print(Text(f"… {found.before} earlier messages", style="dim"))
    for message in found.messages:
        marked = found.message is not None and message.uid == found.message.uid
        _print_message(session, message, marked)
    if found.after:
        session.out.print(Text(f"… {found.after} later messages", style="dim"))


def _print_result(session: CommandSession, result: SearchResult, titles: dict[str, str], explain: bool) -> None:
    for note in result.notes:
        session.note(note)
    if not result.hits:
        session.out.print("Nothing was found.")
        return
    groups: dict[str, list[Hit]] = {}
    for hit in result.hits:
        groups.setdefault(hit.entry.conversation_uid or hit.entry.source, []).append(hit)
    for key, hits in groups.items():
        project = hits[0].entry.project
        heading = Text(titles.get(key) or key, style="bold")
        heading.append(f"  {_short(project)}" if project else "", style="cyan")
        session.out.print(heading)
        for hit in hits:
            _print_hit(session, hit, result, explain)
        session.out.print()


def _print_hit(session: CommandSession, hit: Hit, result: SearchResult, explain: bool) -> None:
    entry = hit.entry
    speaker = entry.author or entry.role or entry.source
    line = Text(f"  {speaker}, {readable_age(entry.created_at)}  ", style="green")
    line.append(entry.ref_uid, style="dim")
    line.append(_label(entry.trust), style="red")
    session.out.print(line)
    text = Text("    " + _excerpt(entry.text, result.terms))
    pattern = _pattern(result.terms)
    if pattern:
        text.highlight_regex(pattern, "bold yellow")
    session.out.print(text)
    if explain:
        session.out.print(Text("    " + _explanation(hit, result.threshold), style="dim"))


def _label(trust: Trust) -> str:
    """What stands behind what is not to be trusted."""
    return f"  {trust.label}" if trust.is_untrusted else ""


def _short(project: str) -> str:
    """A project's key as people call it: its last part."""
    return project.rpartition(":")[2].rstrip("/").rpartition("/")[2] or project


def _explanation(hit: Hit, threshold: float | None) -> str:
    similarity = "no vector yet" if hit.similarity is None else f"similarity {hit.similarity:.3f}"
    parts = [
        f"score {hit.score:.3f}",
        f"fused {hit.fused:.3f}",
        f"{similarity} (rank {hit.vector_rank or '-'}, threshold {'-' if threshold is None else threshold})",
        f"keyword rank {hit.keyword_rank or '-'}",
    ]
    parts += [
        f"{reason.name} x{reason.value:.2f}" + (f" ({reason.note})" if reason.note else "") for reason in hit.reasons
    ]
    return " · ".join(parts)


def _print_message(session: CommandSession, message: Message, marked: bool) -> None:
    speaker = message.author or message.role.value
    what = "" if message.type.value == "text" else f" {message.type.value}"
    stamp = message.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
    style = "bold yellow" if marked else "green"
    line = Text(f"{'> ' if marked else ''}{speaker}{what}, {stamp}  ", style=style)
    line.append(message.uid, style="dim")
    line.append(_label(message.trust), style="red")
    session.out.print(line)
    session.out.print(Text(message.text))
    session.out.print()


def _pattern(terms: tuple[str, ...]) -> str:
    stems = [re.escape(term[:-2] if len(term) > 5 else term) for term in terms]
    return rf"(?i)(?:\b|(?<=[^\x00-\x7f]))(?:{'|'.join(stems)})\w*" if stems else ""


def _excerpt(text: str, terms: tuple[str, ...]) -> str:
    flat = " ".join(text.split())
    if len(flat) <= _EXCERPT:
        return flat
    pattern = _pattern(terms)
    found = re.search(pattern, flat) if pattern else None
    begin = max(0, (found.start() if found else 0) - _EXCERPT // 3)
    end = begin + _EXCERPT
    return ("…" if begin else "") + flat[begin:end] + ("…" if end < len(flat) else "")


def readable_age(moment: datetime) -> str:
    """`3 days ago`, and the date itself for what is older than a month, or to come."""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    if seconds < -_CLOCKS_DIFFER_SECONDS:
        return moment.astimezone().strftime("%Y-%m-%d")
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = int(seconds // length)
        if unit == "day" and count > 31:
            return moment.astimezone().strftime("%Y-%m-%d")
        if count >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
