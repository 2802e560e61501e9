"""`harken export`: everything that was recorded, to move to another store."""

from __future__ import annotations

import sys
from typing import Any

import click

from harken.journal.export import Exported
from harken.serve.cli.session import CommandSession, counted, json_option, print_json, readable_bytes, with_session


@click.command()
@click.argument("file", metavar="FILE|-")
@json_option
@with_session
def export(session: CommandSession, file: str, as_json: bool) -> None:
    """Write everything that was recorded to a file, or with `-` to stdout.

    It holds conversations, segments, exchanges, messages and memories with their ids, and the ids of what was
    forgotten, so that it can be moved between an embedded file and a server: `harken import jsonl FILE --as-mine`. The
    same records always give the same file. Vectors are derived and not in it; the other store makes its own.
    """
    to_stdout = file == "-"
    with session.engine() as harken, session.progress("Exporting", "messages") as show:
        exported = harken.upkeep.export(sys.stdout.buffer if to_stdout else file, show)
    if to_stdout:
        session.note(_line("stdout", exported))
    elif as_json:
        print_json(_facts(file, exported))
    else:
        session.out.print(_line(file, exported), markup=False)


def _line(place: str, exported: Exported) -> str:
    held = f"{counted(exported.messages, 'message')} in {counted(exported.conversations, 'conversation')}"
    if exported.kept:
        held += f", {counted(exported.kept, 'other record')}"
    return f"{place}: {held}, {readable_bytes(exported.bytes)}"


def _facts(file: str, exported: Exported) -> dict[str, Any]:
    return {
        "file": file,
        "conversations": exported.conversations,
        "messages": exported.messages,
        "kept": exported.kept,
        "forgotten": exported.forgotten,
        "bytes": exported.bytes,
    }
