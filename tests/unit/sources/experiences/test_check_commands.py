from __future__ import annotations

import pytest

from harken.sources.experiences.checks import check_command, command_line


@pytest.mark.parametrize(
    "line",
    [
        "pytest -q",
        "uv run pytest tests/a.py -k b",
        "python3 -m unittest discover",
        "python manage.py test shop",
        "cd web && npm test -- --watch=false",
        "pnpm run test:unit",
        "npx vitest run",
        "cargo test --all",
        "go test ./...",
        "make -j4 test",
        "./gradlew :app:test",
        "mvn -q verify",
        "timeout 60 pytest",
        "CI=1 npm run e2e",
        "(cd core && make check)",
        "uv run --with hypothesis -q pytest",
        "uv run -p 3.12 python -m pytest",
        "npx --yes jest",
        "sudo -u app pytest",
        "coverage run -m pytest",
        "pnpm --filter api test",
        "pnpm -r run test:unit",
        "npm --prefix web test",
        "npm run -w app test",
        "yarn workspace api test",
        "bun run test",
        "node --import tsx --test tests/",
        "nice -n 10 pytest",
        "pdm run pytest",
    ],
)
def test_commands_that_test_are_known(line: str) -> None:
    assert check_command(line) is not None


@pytest.mark.parametrize(
    "line", ["npx tsc --noEmit", "gcc -O2 -o a a.c", "cargo build", "go vet ./...", "npm run build", "make", "mypy src"]
)
def test_commands_that_build_are_known(line: str) -> None:
    assert check_command(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "git commit -m 'npm test passes'",
        "cat test.log | grep FAILED",
        "pytest --version",
        "make clean",
        "npm run dev",
        "go run main.go",
        "echo pytest",
        "cat > run.sh <<EOF\npytest\nEOF",
        "npm install",
        "yarn workspace api add test",
        "npm -g install test",
        "node server.js",
        "uv run -q",
        "docker compose exec web pytest",
        "bash -c 'pytest -q'",
        "bash run.sh -c pytest",
        "python -c 'pytest'",
        "grep -r 'unbalanced",
        "",
    ],
)
def test_other_commands_are_none(line: str) -> None:
    assert check_command(line) is None


@pytest.mark.parametrize(
    ("line", "owned"),
    [
        ("pytest", True),
        ("cd api && pytest", True),
        ("pytest 2>&1 | tail -5", False),
        ("pytest || true", False),
        ("pytest; echo done", False),
        ("pytest && git push", False),
        ("npm install && npm test", False),
        ("npm install; npm test", True),
        ("tsc && npm test", True),
    ],
)
def test_an_exit_code_counts_only_where_it_is_the_checks_own(line: str, owned: bool) -> None:
    found = check_command(line)
    assert found is not None
    assert found.owns_exit is owned


@pytest.mark.parametrize(
    ("tool", "call", "line"),
    [
        ("Bash", 'Bash {"command": "pytest -q", "description": "Run"}', "pytest -q"),
        ("shell", 'shell {"command": ["bash", "-lc", "npm test"]}', "npm test"),
        ("exec_command", 'exec_command {"cmd": "cargo test"}', "cargo test"),
        ("shell", "shell go test ./...", "go test ./..."),
        ("Read", 'Read {"command": "pytest"}', ""),
        ("Bash", "Bash {broken", ""),
        (None, "pytest", ""),
    ],
)
def test_the_command_line_is_read_from_the_call_of_a_shell(tool: str | None, call: str, line: str) -> None:
    assert command_line(tool, call) == line
