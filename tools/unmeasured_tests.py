r"""Name the long tests whose lines others run as well, so that `make coverage` measures nothing in them.

    COVERAGE_FILE=FOLDER/coverage python -m pytest --cov --cov-report= --cov-context=test \
        --durations=0 --durations-min=0.1 | tee LOG
    python tools/unmeasured_tests.py FOLDER/coverage LOG > tests/unmeasured.txt

Measuring takes nearly as long again as the test itself. The slowest come first, and each is left out that runs no line
which none of the others runs; empty `tests/unmeasured.txt` before, or what it names is not looked at.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from coverage import CoverageData

_TOOK = re.compile(r"^([\d.]+)s (?:setup|call) +tests/(\S+::[\w:]+)", re.MULTILINE)
LEAST_SECONDS = 0.3


def lines_by_test(measured: Path) -> dict[str, set[tuple[str, int]]]:
    """The lines that each test function ran, all its cases together; those of commands are of none."""
    data = CoverageData(str(measured))
    data.read()
    found = defaultdict(set)
    for file in data.measured_files():
        for line, contexts in data.contexts_by_lineno(file).items():
            for context in contexts:
                found[context.partition("|")[0].partition("[")[0].removeprefix("tests/")].add((file, line))
    return found


def main() -> None:
    """Print the names, sorted."""
    measured, log = map(Path, sys.argv[1:3])
    seconds: dict[str, float] = defaultdict(float)
    for took, name in _TOOK.findall(log.read_text(encoding="utf-8")):
        seconds[name] += float(took)
    ran = lines_by_test(measured)
    runs: dict[tuple[str, int], int] = defaultdict(int)
    for lines in ran.values():
        for line in lines:
            runs[line] += 1
    left_out = []
    for name in sorted(seconds, key=lambda each: -seconds[each]):
        lines = ran.get(name, set())
        if seconds[name] >= LEAST_SECONDS and all(runs[line] > 1 for line in lines):
            left_out.append(name)
            for line in lines:
                runs[line] -= 1
    print("\n".join(sorted(left_out)))


if __name__ == "__main__":
    main()
