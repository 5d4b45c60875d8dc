"""Every scenario by its name, and which of its calls can be taken away from it."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tests.crash.tasks.counter import BUGS, Counter
from tests.crash.tasks.injections import Sabotage
from tests.crash.tasks.laboratory import Scenario, ScenarioFolders
from tests.crash.tasks.task import Task
from tests.support.crash_injection import Point

CAPABILITIES: Final = ("FILE_MOVE", "FILE_COPY", "FILE_DELETE")
SCENARIOS: Final[dict[str, Callable[[], Scenario]]] = {
    "counter": Counter,
    **{f"counter: {bug}": partial(Counter, bug) for bug in BUGS},
    **{capability: partial(Task, capability) for capability in CAPABILITIES},
    **{f"{capability}, retried": partial(Task, capability, retried=True) for capability in CAPABILITIES},
}

_SYNCS: Final = frozenset({"fsync", "fdatasync"})


def _no_sync_of(judge: Callable[[ScenarioFolders, str], bool], folders: ScenarioFolders) -> Sabotage:
    def forgotten(point: Point) -> bool:
        return point.call in _SYNCS and judge(folders, point.paths[0])

    return forgotten


def _is_folder(folders: ScenarioFolders, path: str) -> bool:
    return path in {str(folders.left), str(folders.right)}


def _is_file(folders: ScenarioFolders, path: str) -> bool:
    return Path(path).parent in {folders.left, folders.right}


def _is_ledger(folders: ScenarioFolders, path: str) -> bool:
    return os.path.basename(path).startswith("ledger.sqlite3")


def _is_snapshot(folders: ScenarioFolders, path: str) -> bool:
    return (
        "snapshots" in Path(path).relative_to(folders.state).parts
        if Path(path).is_relative_to(folders.state)
        else False
    )


SABOTAGES: Final[dict[str, Callable[[ScenarioFolders], Sabotage]]] = {
    "no fsync of the file": partial(_no_sync_of, _is_file),
    "no fsync of its folder": partial(_no_sync_of, _is_folder),
    "no fsync of the ledger": partial(_no_sync_of, _is_ledger),
    "no fsync of the snapshot": partial(_no_sync_of, _is_snapshot),
}
