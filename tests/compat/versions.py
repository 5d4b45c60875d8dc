"""Versions of Remit from this repository's own history, and programs that run under one of them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
BEFORE: Final = "80292a0"
"""The version before the safety fixes and the new layout: what users have."""
LONGEST: Final = 180


class NoSuchVersionError(Exception):
    """The history does not go back that far."""


def source_of(commit: str, folder: Path) -> Path:
    """`src` as it is in this commit, below `folder`; to be put on a Python path."""
    if _git("cat-file", "-e", f"{commit}^{{commit}}").returncode:
        raise NoSuchVersionError(
            f"the commit {commit} is not in this history (a shallow clone?): git fetch --unshallow"
        )
    packed = _git("archive", commit, "src")
    if packed.returncode:
        raise NoSuchVersionError(f"git archive {commit}: {packed.stderr.decode(errors='replace').strip()}")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder / "src"


def run_with(
    source: Path, *words: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`python WORDS` with this version of Remit. What the caller's shell says of Remit is not heard."""
    heard = {name: value for name, value in os.environ.items() if not name.startswith(("REMIT_", "OTEL_"))}
    given = {**heard, **(environ or {}), "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *words], env=given, cwd=cwd, capture_output=True, text=True, timeout=LONGEST, check=False
    )


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
