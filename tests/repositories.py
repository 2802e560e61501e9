"""A real git repository to index."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Repository:
    """Runs git in a folder, each commit a minute after the one before."""

    root: Path
    minutes: int = 0

    def git(self, *arguments: str, author: str = "Ann Lee <ann@example.org>") -> str:
        name, _, email = author.rstrip(">").partition(" <")
        moment = f"2026-05-04T{10 + self.minutes // 60:02}:{self.minutes % 60:02}:00+00:00"
        person = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", name), ("EMAIL", email), ("DATE", moment))
        }
        done = subprocess.run(
            ["git", "-C", str(self.root), *arguments],
            env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(self.root.parent), **person},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def commit(self, message: str, author: str = "Ann Lee <ann@example.org>", **files: str) -> str:
        """Write the files (`a__b_py` is `a/b.py`), commit everything, and give the commit's id."""
        for name, text in files.items():
            folder, _, suffix = name.replace("__", "/").rpartition("_")
            self.write(f"{folder}.{suffix}", text)
        self.minutes += 1
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", message, author=author)
        return self.git("rev-parse", "HEAD")


def new_repository(root: Path) -> Repository:
    """An empty repository."""
    root.mkdir(parents=True)
    repository = Repository(root)
    repository.git("init", "-q", "-b", "main")
    return repository
