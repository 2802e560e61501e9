"""How experiences, candidates, clusters and values are printed, for people and for scripts."""

from __future__ import annotations

from rich.text import Text

from harken.model.experience_texts import experience_markdown
from harken.model.experiences import Experience
from harken.serve.cli.session import CommandSession
from harken.sources.experiences.candidates import Candidate


def print_experience(session: CommandSession, one: Experience) -> None:
    """The whole story."""
    standing = f"{one.status.value} {one.tier}".rstrip()
    session.out.print(Text(f"{one.uid} · {standing} · iteration {one.iteration_count} · {one.agent}", "bold"))
    session.out.print(Text(experience_markdown(one, "root_cause")))
    if one.lesson and one.lesson.takeaway:
        session.out.print(Text(f"- **Takeaway**: {one.lesson.takeaway}"))
    for number, each in enumerate(one.history, start=1):
        session.out.print(Text(f"  iteration {number}: {each.hypothesis} | {each.action} | {each.prediction}", "dim"))
    for note in one.notes:
        session.out.print(Text("  note: " + note.text.replace("\n", "\n  "), "dim"))


def print_candidate(session: CommandSession, one: Candidate) -> None:
    """A failed check with what was said around it."""
    times = "once" if one.failures == 1 else f"{one.failures} times"
    since = ", passed since" if one.has_passed else ""
    session.out.print(Text(f"{one.uid} · `{one.command}` failed {times}{since}", "bold"))
    session.out.print(Text(one.printed))
    for name in ("goal", "hypothesis", "prediction"):
        session.out.print(Text(f"  {name}: {' '.join(getattr(one, name).split()) or 'not said'}", "dim"))
