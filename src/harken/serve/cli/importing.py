"""`harken import` and `harken export`: histories of this machine or named files; everything, for another store."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harken.errors import MissingExtraError, ProviderError, TranscriptError, UsageError
from harken.serve.cli.session import CommandSession, print_json, with_json
from harken.serve.operations.status import EMBEDDINGS
from harken.serve.process import EXIT_INTERRUPTED
from harken.text.shown import counted, readable_bytes

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.importers.importer import ImportReport, Progress
    from harken.importers.parsed import TranscriptFormat
    from harken.serve.cli.session import Report

_SHOWN_UNREADABLE = 10
# From so many on, embedding takes a minute or more; how long, the time of so many batches tells, twice the same.
_MANY_TEXTS, _MEASURED_BATCHES, _LEAST_MARKS, _MOST_MARKS, _ALIKE = 2000, 4, 3, 5, 1.5
_COUNTS = ("files", "unchanged", "added", "known", "forgotten", "erased", "kept", "capped", "summaries", "vectors")
_NOT_ADDED = ("left_core", "left_erasures", "left_changes", "unreadable", "failed")
_ENDPOINT = "openai-compatible"

Sources = Sequence[tuple[str, Sequence[Path]]]

no_embed_option = click.option(
    "--no-embed", is_flag=True, help="Do not embed now; `harken worker run --until-idle` does it later."
)


@click.command("import")
@click.argument("arguments", nargs=-1, metavar="[FORMAT] [PATH]...")
@click.option("--as-mine", is_flag=True, help="These files are your own memory: all that they say holds; do not ask.")
@no_embed_option
@with_json
def import_command(
    session: CommandSession, arguments: tuple[str, ...], as_mine: bool, no_embed: bool, as_json: bool
) -> None:
    """Import conversations: claude-code, codex, chatgpt, claude-ai or jsonl files, and exports of Harken.

    Without arguments, finds the histories of the agents installed on this machine and imports them. With a FORMAT and
    no PATH, looks where that agent keeps its history. With a PATH and no FORMAT, tells the format by the files
    themselves. Importing again adds only what is new.

    What `harken export` wrote is imported as jsonl, with all ids. If such a file is your own memory, it also brings
    core memories, the trust of your own words, and what was forgotten, which is erased here too: that is asked first,
    or said by --as-mine. Of any other its words come as `imported`, and the rest is left out. So do the words of an
    agent's transcript that lies outside of that agent's own folder.
    """
    from harken.importers.importer import ImportReport

    report = ImportReport()
    with session.engine(["record"]) as harken:
        formats = harken.transcript_formats()
        sources = _sources(session, formats, arguments)
        as_mine = as_mine or _is_agreed(session, formats, sources)
        try:
            for format_name, paths in sources:
                with session.progress(f"Importing {format_name}", "bytes") as show:
                    told = partial(_tell_progress, show)
                    harken.import_transcripts(format_name, paths, progress=told, report=report, as_mine=as_mine)
        finally:
            if not as_json:
                _print_report(session, report)
        embedded = None if no_embed else embed_now(session, harken)
        if no_embed:
            _tell_how_embedding_goes_on(session, harken)
        if as_json:
            left_out = {"core": report.left_core, "erasures": report.left_erasures, "changes": report.left_changes}
            view = {
                **{name: getattr(report, name) for name in _COUNTS},
                "left_out": left_out,
                "conversations": len(report.conversations),
                "unreadable": [asdict(bad) for bad in report.unreadable],
                "failed": [{"path": path, "reason": reason} for path, reason in report.failed],
            }
            print_json({**view, "embedded": embedded})
        elif report.added:
            session.note('Try: harken search "what you remember of it"')
        elif arguments[1:] and not any(getattr(report, name) for name in (*_COUNTS[1:], *_NOT_ADDED, "told")):
            session.note("Nothing in it is of this format. Without one it is told by the files: harken import PATH")
    if (report.unreadable or report.failed) and not (report.added or report.known or report.kept or report.forgotten):
        raise TranscriptError("Nothing was imported, for nothing in it could be read.")


def _sources(session: CommandSession, formats: Mapping[str, TranscriptFormat], arguments: Sequence[str]) -> Sources:
    is_named = not arguments or arguments[0] in formats
    paths = [Path(argument).expanduser() for argument in arguments[is_named:]]
    if not is_named and not paths[0].exists():
        raise UsageError(f"'{paths[0]}' is neither a file nor a format. Formats: {', '.join(formats)}")
    for path, argument in zip(paths, arguments[is_named:], strict=True):
        if not argument or not path.exists():
            raise UsageError(f"{path if argument else 'A path that is empty'} does not exist.")
        if not path.is_file() and not path.is_dir():
            raise UsageError(
                f"{path} is neither a file nor a folder. What comes through a pipe is saved to a file first."
            )
    if paths:
        return [(arguments[0], paths)] if is_named else _guessed(session, formats, paths)
    found = [(name, formats[name].discover()) for name in (arguments or formats)]
    found = [(name, paths) for name, paths in found if paths]
    if not found:
        where = f"of {arguments[0]} " if arguments else ""
        raise UsageError(f"No history {where}was found on this machine. Name files: harken import FORMAT PATH")
    for name, paths in found:
        session.note(f"Found {name}: {', '.join(str(path) for path in paths)}")
    return found


def _guessed(session: CommandSession, formats: Mapping[str, TranscriptFormat], paths: Sequence[Path]) -> Sources:
    from harken.importers.formats import sort_by_format

    found = sort_by_format(paths, formats)
    if not found.files:
        raise UsageError(f"No transcript was recognised in {paths[0]}. Name its format: {', '.join(formats)}")
    for name, files in found.files.items():
        session.note(f"Found {name}: {counted(len(files), 'file')}")
    if found.unknown:
        session.note(f"Passed over, of no known format: {counted(len(found.unknown), 'file')}")
    return list(found.files.items())


def import_all(session: CommandSession, harken: Harken, sources: Sources, *, is_quiet: bool) -> int:
    """Import histories and embed them, unless that costs money: then say how; how many messages are new."""
    from harken.importers.importer import ImportReport

    report = ImportReport()
    for format_name, paths in sources:
        with session.progress(f"Importing {format_name}", "bytes") as show:
            harken.import_transcripts(format_name, paths, progress=partial(_tell_progress, show), report=report)
    if not is_quiet:
        _print_report(session, report)
    plan = harken.maintenance.plan_embedding() if harken.settings.embedder == _ENDPOINT else None
    if plan is None or plan.price_usd == 0:
        embed_now(session, harken)
        return report.added
    price = "of no known price" if plan.price_usd is None else f"about ${plan.price_usd:.2f}"
    session.note(f"To embed it all takes {plan.tokens:,} tokens of {plan.model}, {price}. Nothing was sent to it.")
    _tell_how_embedding_goes_on(session, harken)
    return report.added


def _tell_progress(show: Report, progress: Progress) -> None:
    files = f"{progress.files_done} of {counted(progress.files, 'file')}"
    show(progress.bytes_done, progress.bytes, f"{files}, {progress.added:,} new messages")


def embed_now(session: CommandSession, harken: Harken, unit: str = "messages") -> int | None:
    """Embed what waits, with a bar; None, and a word why, where that is not possible now."""
    try:
        with session.progress("Embedding", unit) as show:
            return harken.embed(_with_estimate(session, show))
    except (MissingExtraError, ProviderError) as error:
        session.note(f"Not embedded, so search goes by words alone for now: {error}")
        _tell_how_embedding_goes_on(session, harken)
        return None
    except KeyboardInterrupt as interruption:
        from harken.search.session import GO_ON

        session.note(f"Embedding stopped; everything is recorded and searchable by word. Go on: {GO_ON}")
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from interruption


def _with_estimate(session: CommandSession, show: Report) -> Callable[[int, int], None]:
    """The same, with a word on how long it takes, by what it has taken so far, where that is no moment."""
    from harken.search.session import GO_ON

    marks: list[tuple[float, int]] = []
    batches, is_told = 0, False

    def report(done: int, total: int) -> None:
        nonlocal batches, is_told
        marks.extend([(time.monotonic(), done)] if batches % _MEASURED_BATCHES == 0 else ())
        batches += 1
        if len(marks) >= _LEAST_MARKS and done < total and total >= _MANY_TEXTS and not is_told:
            rates = [(now - before) / (more - some) for (before, some), (now, more) in pairwise(marks[-3:])]
            # What is newest goes first, and may be far longer than the rest.
            is_told = max(rates) < _ALIKE * min(rates) or len(marks) == _MOST_MARKS
            if is_told:
                minutes = ceil(rates[-1] * (total - done) / 60)
                session.note(
                    f"{counted(total, 'text')} to embed: about {counted(minutes, 'minute')} more. They are found by "
                    f"their words meanwhile. Ctrl-C stops it; go on: {GO_ON}"
                )
        show(done, total)

    return report


def _tell_how_embedding_goes_on(session: CommandSession, harken: Harken) -> None:
    from harken.search.session import GO_ON
    from harken.serve.daemon.lock import holder
    from harken.serve.daemon.paths import DaemonPaths

    (report,) = harken.background.status(EMBEDDINGS)
    if not report.waiting or harken.settings.embedder == "none":
        return
    waiting = f"{counted(report.waiting, 'text')} wait{'s' if report.waiting == 1 else ''} to be embedded"
    if not report.enabled:
        session.note(f"{waiting}, and embedding is switched off. Go on: harken embeddings on, and then: {GO_ON}")
    elif holder(DaemonPaths(str(harken.home))) is not None:
        session.note(f"{waiting}; the daemon of this home does that in the background.")
    else:
        session.note(f"{waiting}. Go on: {GO_ON}")


def _print_report(session: CommandSession, report: ImportReport) -> None:
    added, conversations = counted(report.added, "new message"), counted(len(report.conversations), "conversation")
    session.say(
        f"{added} in {conversations} from {counted(report.files, 'file')}"
        f" ({report.known} known already, {counted(report.unchanged, 'file')} unchanged)."
    )
    for count, noun, what in (
        (report.kept, "other record", "new or changed: memories and the like"),
        (report.forgotten, "message", "forgotten earlier, and staying so"),
        (report.erased, "message", "erased, for the export says they were forgotten"),
    ):
        if count:
            session.say(f"{counted(count, noun)} {what}.")
    if made := _listed((report.summaries, "summary", "summaries"), (report.vectors, "vector", "vectors")):
        session.say(f"{made} taken as they were made.")
    left = _listed(
        (report.left_core, "core memory", "core memories"),
        (report.left_erasures, "erasure", "erasures"),
        (report.left_changes, "change of what is your own", "changes of what is your own"),
    )
    if left:
        session.say(f"Left out, for nobody said that the file is your own memory: {left}.")
    if report.capped:
        session.say(f"Came as imported, whatever trust its file claims: {counted(report.capped, 'record')}.")
    if left or report.capped:
        session.note("If it is your own, import it once more with --as-mine: that adds what is missing.")
    for path, reason in report.failed:
        session.note(f"Could not be read: {path}: {reason}")
    for bad in report.unreadable[:_SHOWN_UNREADABLE]:
        session.note(f"Unreadable: {bad.path}:{bad.line}: {bad.reason}")
    if len(report.unreadable) > _SHOWN_UNREADABLE:
        session.note(f"… and {len(report.unreadable) - _SHOWN_UNREADABLE} more lines; all of them: --json")


def _is_agreed(session: CommandSession, formats: Mapping[str, TranscriptFormat], sources: Sources) -> bool:
    """Say what exports among the files claim, and ask once whether all of it is to hold; anything but a yes is a no."""
    from harken.importers.merge import claims_of, exports_among

    claims = {
        file: found
        for name, paths in sources
        for file in exports_among(formats[name], paths)
        if (found := claims_of(file))
    }
    for file, found in claims.items():
        held = _listed(
            (found.core, "core memory", "core memories"),
            (found.erasures, "erasure", "erasures"),
            (found.trusted, "record of your own or your agents' words", "records of your own or your agents' words"),
        )
        session.note(f"{file} is an export of Harken. It holds {held}.")
    if not claims:
        return False
    if not sys.stdin.isatty():
        session.note("Nobody can answer here, so it is imported as a stranger's. If it is your own: --as-mine")
        return False
    session.note(
        "If this is your own memory, all of that holds here as well: core memories stand in every context, and what is "
        "erased is gone for good. If not, its words come as imported, and the rest is left out."
    )
    return session.agrees("if it is your own")


def _listed(*found: tuple[int, str, str]) -> str:
    """`1 core memory, 1,200 erasures`; what there is none of is left out."""
    return ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in found if count)


@click.command()
@click.argument("file", metavar="FILE|-")
@click.option("--with-vectors", is_flag=True, help="Embedding again takes long, or costs: write the vectors as well.")
@with_json
def export(session: CommandSession, file: str, with_vectors: bool, as_json: bool) -> None:
    """Write everything that was recorded to a file, or with `-` to stdout.

    It holds conversations, segments, exchanges, messages and memories with their ids, their summaries, and the ids of
    what was forgotten, so that it can be moved between an embedded file and a server: `harken import jsonl FILE
    --as-mine`. The same records always give the same file. Vectors are only in it on request, and taken by a store with
    the same embedding model; any other makes its own.
    """
    to_stdout = file == "-"
    with session.engine() as harken, session.progress("Exporting", "messages") as show:
        exported = harken.maintenance.export(sys.stdout.buffer if to_stdout else file, show, with_vectors)
    held = f"{counted(exported.messages, 'message')} in {counted(exported.conversations, 'conversation')}"
    if exported.kept:
        held += f", {counted(exported.kept, 'other record')}"
    made = _listed((exported.summaries, "summary", "summaries"), (exported.vectors, "vector", "vectors"))
    held += f", {made}" if made else ""
    line = f"{'stdout' if to_stdout else file}: {held}, {readable_bytes(exported.bytes)}"
    if to_stdout:
        session.note(line)
    else:
        session.tell(as_json, {"file": file, **asdict(exported)}, line)
