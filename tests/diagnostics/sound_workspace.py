"""A sound workspace that a test can spoil, and how to look at it."""

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path

from remit.cli.doctor import examine_workspace
from remit.core.ids import system_clock
from remit.diagnostics.check import Check
from remit.fs.state_dir import StateDirectory
from remit.workspace.create import initialise

ROOT = Path(__file__).resolve().parent.parent.parent
SECRET = "hunter2-Xq9"


def checks_by_name(checks: tuple[Check, ...]) -> dict[str, Check]:
    found = {check.name: check for check in checks}
    assert len(found) == len(checks)
    return found


@dataclasses.dataclass(frozen=True)
class SoundWorkspace:
    """A sound workspace, to be spoiled by one test."""

    root: Path
    state: StateDirectory
    environ: dict[str, str]

    def run_checks(self) -> dict[str, Check]:
        return checks_by_name(examine_workspace(self.root, self.environ, system_clock))


def make_sound_workspace(folder: Path) -> SoundWorkspace:
    """The path is empty: starting a browser for its version is slow, and has tests of its own."""
    root = folder / "work"
    environ = {"REMIT_STATE": str(folder / "state"), "PATH": "", "HOME": str(folder)}
    root.mkdir()
    made, _ = initialise(root, environ, system_clock)
    made.close()
    return SoundWorkspace(root, made.state, environ)


def change(sound_workspace: SoundWorkspace, statement: str, *parameters: str) -> None:
    with closing(sqlite3.connect(sound_workspace.state.database)) as connection:
        connection.execute(statement, parameters)
        connection.commit()


def key_file(state: StateDirectory, role: str = "kernel") -> Path:
    (path,) = (state.keys / role).glob("*.pem")
    return path
