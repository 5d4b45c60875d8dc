"""One task of the product, through `Workspace.execute_task`, recovered by `remit recover`, and judged from outside.

After recovery the world is as before or as after, byte for byte; it is what the stored result says; there is one
outcome for the one intent; asking again gives the same result; whatever succeeded can be taken back.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from remit.cli import main
from remit.contracts.tasks.result import ExecutionResult
from remit.core.ids import DEFAULT_TENANT, system_clock
from remit.store.claims import ClaimCompleted, ClaimHeld, ClaimKey, read_claim
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace
from tests.crash.tasks.laboratory import ScenarioFolders
from tests.support.crash_injection import Acknowledge

TASK_ID: Final = "task-1"
SOURCE, DESTINATION = "report.bin", "filed.bin"
MODE: Final = 0o640
TIME_NS: Final = 1_700_000_000_123_456_789
BLOCKS: Final = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(1024))
CONTENT: Final = BLOCKS + bytes(len(BLOCKS)) + BLOCKS[: len(BLOCKS) // 2 + 5]
"""With a hole in the middle, and an end that is no whole block."""

World = dict[str, Any]


class Task:
    """The scenario of one capability. Across filesystems or not is a matter of the layout."""

    named = False

    def __init__(self, capability_id: str, *, retried: bool = False) -> None:
        self.name = capability_id
        self._capability_id = capability_id
        self._retried = retried
        """Nobody runs `remit recover`: the caller, who still has a lease, asks again."""

    def seed(self, folders: ScenarioFolders) -> None:
        _write_source(folders.left / SOURCE)
        project = _project(folders)
        project.mkdir()
        bases = f"  - {folders.left}\n  - {folders.right}\n"
        (project / "remit.yaml").write_text(f"version: 1\nroot: .\nbase_directories:\n{bases}")
        initialise(project, _environ(folders), system_clock)[0].close()
        with _opened(folders) as workspace:
            lease = workspace.issue_lease(self._manifest(folders), life=timedelta(hours=1))
        (folders.state / "lease.json").write_bytes(lease.canonical())

    def work(self, folders: ScenarioFolders, acknowledge: Acknowledge) -> None:
        with _opened(folders) as workspace:
            acknowledge(self._execute(workspace, folders))

    def recover(self, folders: ScenarioFolders) -> None:
        if self._retried:
            self.work(folders, lambda _: None)
            return
        os.environ.update(_environ(folders))
        main(["recover", "--workspace", str(_project(folders))])

    def look(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        if not acknowledged:
            return []
        with _opened(folders) as workspace:
            stored = _stored(workspace)
        return self._contradictions(folders, acknowledged, stored)

    def judge(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        with _opened(folders) as workspace:
            stored = _stored(workspace)
            wrong = self._contradictions(folders, acknowledged, stored)
            if isinstance(stored, ClaimHeld):
                wrong.append(f"still unfinished, owned by {stored.owner}")
            elif self._retried and (stored is None or _status(stored.result) != "SUCCESS"):
                wrong.append(f"asked for again, and not done: {stored}")
            wrong += self._misplaced(folders, stored)
            wrong += _miscounted(workspace, intents=1 if stored else 0)
            wrong += self._once_more(workspace, folders, stored)
            wrong += _miscounted(workspace, intents=1)
            wrong += self._no_way_back(workspace, folders)
            verdict = workspace.verify_ledger()
            return wrong if verdict.holds else [*wrong, f"the ledger does not verify: {verdict}"]

    def _once_more(
        self, workspace: Workspace, folders: ScenarioFolders, stored: ClaimHeld | ClaimCompleted | None
    ) -> list[str]:
        """What was done is not done again; what was not begun can still be done."""
        results = [self._execute(workspace, folders) for _ in range(2)]
        if results[0] != results[1]:
            return [f"two calls, two results: {results}"]
        if isinstance(stored, ClaimCompleted):
            return [] if results[0] == stored.result else [f"stored {stored.result}, given {results[0]}"]
        if _status(results[0]) != "SUCCESS":
            return [f"never begun, and now refused: {results[0]}"]
        return self._misplaced(folders, _stored(workspace))

    def _no_way_back(self, workspace: Workspace, folders: ScenarioFolders) -> list[str]:
        result = self._execute(workspace, folders)
        if _status(result) != "SUCCESS":
            return []
        restored = workspace.restore_task(result.encode())
        if restored.status != "SUCCESS":
            return [f"cannot be taken back: {restored.error}"]
        return [] if _world(folders) == _before() else [f"taken back to {_shown(_world(folders))}"]

    def _contradictions(
        self, folders: ScenarioFolders, acknowledged: Sequence[str], stored: ClaimHeld | ClaimCompleted | None
    ) -> list[str]:
        """A success that was acknowledged is stored and in the world; a failure after the intent is stored, too."""
        wrong = []
        for result in acknowledged:
            kept = stored.result if isinstance(stored, ClaimCompleted) else None
            if kept != result and (stored is not None or _status(result) == "SUCCESS"):
                wrong.append(f"acknowledged {result}, stored {kept or stored}")
            if _status(result) == "SUCCESS" and not self._is_after(_world(folders)):
                wrong.append(f"acknowledged, and lost in the world: {_shown(_world(folders))}")
        return wrong

    def _misplaced(self, folders: ScenarioFolders, stored: ClaimHeld | ClaimCompleted | None) -> list[str]:
        world = _world(folders)
        succeeded = isinstance(stored, ClaimCompleted) and _status(stored.result) == "SUCCESS"
        if self._is_after(world) if succeeded else world == _before():
            return []
        said = stored.result if isinstance(stored, ClaimCompleted) else "nothing"
        return [f"the world is {_shown(world)}, the stored result {said}"]

    def _is_after(self, world: World) -> bool:
        there = _before()["left"][SOURCE]
        match self._capability_id:
            case "FILE_MOVE":
                return world == {"left": {}, "right": {DESTINATION: there}}
            case "FILE_DELETE":
                return world == {"left": {}, "right": {}}
        copied = world["right"].get(DESTINATION, {})
        # A copy is a new file with times of its own.
        return (
            world["left"] == _before()["left"] and {**copied, "mtime_ns": TIME_NS} == there and len(world["right"]) == 1
        )

    def _manifest(self, folders: ScenarioFolders) -> bytes:
        inputs = {"source_path": str(folders.left / SOURCE)}
        if self._capability_id != "FILE_DELETE":
            inputs["destination_path"] = str(folders.right / DESTINATION)
        task = {"task_id": TASK_ID, "capability_id": self._capability_id, "inputs": inputs}
        return json.dumps({**task, "constraints": {"reversible": True}}).encode()

    def _execute(self, workspace: Workspace, folders: ScenarioFolders) -> str:
        lease = (folders.state / "lease.json").read_bytes()
        return workspace.execute_task(self._manifest(folders), lease).canonical().decode()


def _project(folders: ScenarioFolders) -> Path:
    return folders.state / "project"


def _environ(folders: ScenarioFolders) -> Mapping[str, str]:
    return {"REMIT_STATE": str(folders.state / "home")}


def _opened(folders: ScenarioFolders) -> Workspace:
    return Workspace.open(_project(folders), environ=_environ(folders))


def _status(result: str) -> str:
    return ExecutionResult.parse(result.encode()).status


def _stored(workspace: Workspace) -> ClaimHeld | ClaimCompleted | None:
    with workspace.store.reading() as connection:
        return read_claim(connection, ClaimKey(DEFAULT_TENANT, "task", TASK_ID))


def _miscounted(workspace: Workspace, *, intents: int) -> list[str]:
    with workspace.store.reading() as connection:
        kinds = [row[0] for row in connection.rows("SELECT kind FROM ledger_entries ORDER BY seq")]
    if kinds.count("task.intent") == kinds.count("task.outcome") == intents:
        return []
    return [f"expected {intents} intent and outcome, the ledger has {kinds}"]


def _write_source(path: Path) -> None:
    with open(path, "wb") as stream:
        stream.write(BLOCKS)
        stream.seek(len(BLOCKS), os.SEEK_CUR)
        stream.write(CONTENT[2 * len(BLOCKS) :])
        os.fchmod(stream.fileno(), MODE)
    os.utime(path, ns=(TIME_NS, TIME_NS))


def _before() -> World:
    digest = hashlib.sha256(CONTENT).hexdigest()
    owner = {"uid": os.geteuid(), "gid": os.getegid()}
    return {"left": {SOURCE: {"sha256": digest, "mode": 0o100000 | MODE, "mtime_ns": TIME_NS, **owner}}, "right": {}}


def _world(folders: ScenarioFolders) -> World:
    return {
        side: {entry.name: _traits(entry) for entry in os.scandir(getattr(folders, side))} for side in ("left", "right")
    }


def _traits(entry: "os.DirEntry[str]") -> dict[str, Any]:
    found = entry.stat(follow_symlinks=False)
    digest = hashlib.sha256(Path(entry.path).read_bytes()).hexdigest()
    owner = {"uid": found.st_uid, "gid": found.st_gid}
    return {"sha256": digest, "mode": found.st_mode, "mtime_ns": found.st_mtime_ns, **owner}


def _shown(world: World) -> str:
    """Differences from what was there before, in short."""
    there = _before()["left"][SOURCE]
    sides = {}
    for side, files in world.items():
        sides[side] = {
            name: {key: value for key, value in traits.items() if value != there[key]} or "as it was"
            for name, traits in files.items()
        }
    return str(sides)
