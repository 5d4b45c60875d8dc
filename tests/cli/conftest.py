"""Runs the real command in a real process, in a folder of its own. `tests.support.preloaded` says how it is quick."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import preloaded


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Remit = Callable[..., CommandResult]
NO_DIGEST = f"sha256:{'0' * 64}"


def approve(remit: Remit, plan: str, *options: str) -> CommandResult:
    """`remit approve` without a terminal: of the preview that `remit preview --full` shows now."""
    digest = remit("preview", plan, "--json").document.get("digest", NO_DIGEST)
    return remit("approve", plan, *options, "--full", "--digest", digest)


@pytest.fixture
def remit(tmp_path: Path) -> Remit:
    project = tmp_path / "project"
    project.mkdir()

    def run(*arguments: str, stdin: bytes = b"", cwd: Path | None = None, **environ: str) -> CommandResult:
        done = subprocess.run(
            [preloaded.remit(), *arguments],
            cwd=cwd or project,
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
            env={**os.environ, "REMIT_STATE": str(tmp_path / "state"), "COLUMNS": "120", **environ},
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
