"""One plan of the product, through `Workspace.apply`, recovered by `remit recover`, and judged from outside.

After recovery the tree is as before or as after, byte for byte; it is what the stored outcome says; there is one
outcome for the one intent; nothing of Remit's own lies between the files; the papers are there and are those of the
outcome; asking again gives the same; whatever succeeded can be taken back.
"""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from remit.cli import main
from remit.contracts.plans.outcome import PlanOutcome
from remit.contracts.plans.status import StatusUpdate
from remit.core.canonical import digest
from remit.core.ids import DEFAULT_TENANT, system_clock
from remit.store.claims import ClaimCompleted, ClaimHeld, ClaimKey, read_claim
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace
from tests.crash.plans.databases import DATABASE_SUFFIX, made_of, make, rows_and_shape
from tests.crash.tasks.laboratory import ScenarioFolders
from tests.support.crash_injection import Acknowledge

TIME_NS: Final = 1_700_000_000_123_456_789
NOT_THE_PROJECTS: Final = frozenset({"agent_outputs", "agent_logs", "remit.yaml"})
ENDS: Final = {"SUCCESS": "after", "PARTIAL": "partly", "ROLLED_BACK": "before", "FAILED": "before"}
PAPERS: Final = {
    "execution_report.json": "report_digest",
    "change_log.json": "change_log_digest",
    "rollback_manifest.json": "manifest_digest",
}

Files = Mapping[str, tuple[str, int]]
"""Content and mode, by path. The content of a database is the SQL that makes it."""
World = dict[str, tuple[str, int, int | None]]
"""Hash, mode, and the time of modification where it is to be kept."""


class Case(NamedTuple):
    """A plan, and the files before and after it."""

    actions: tuple[Mapping[str, Any], ...]
    before: Files
    after: Files
    instructions: Mapping[str, Any] = {}
    victim: str = ""
    """A file that somebody removes when the plan begins to run, so that its action fails."""
    partly: Files | None = None
    """What a plan that keeps a part leaves."""
    settings: Mapping[str, Any] = {}
    """Of remit.yaml."""
    irreversible: tuple[str, ...] = ()
    """Actions that are approved by their names."""
    named: tuple[str, ...] = ()
    """Files that it changes, and that stand in the settings only."""


class PlanScenario:
    """Each method runs in a process of its own."""

    named = True

    def __init__(self, name: str, case: Case, *, retried: bool = False) -> None:
        self.name = name
        self._case = case
        self._retried = retried
        """Nobody runs `remit recover`: the caller, who still has an approval, asks again."""

    def seed(self, folders: ScenarioFolders) -> None:
        root = root_of(folders)
        root.mkdir()
        for path, (content, mode) in self._case.before.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if path.endswith(DATABASE_SUFFIX):
                make(file, content)
            else:
                file.write_text(content)
            file.chmod(mode)
            os.utime(file, ns=(TIME_NS, TIME_NS))
        _seeded(folders).write_text(json.dumps({path: _hash((root / path).read_bytes()) for path in self._case.before}))
        initialise(root, environ(folders), system_clock)[0].close()
        if self._case.settings:
            (root / "remit.yaml").write_text(json.dumps({"version": 1, **self._case.settings}))
        plan: dict[str, Any] = {"plan_id": "plan-1", "action_plan": self._case.actions}
        plan["execution_instructions"] = self._case.instructions
        with opened(folders) as workspace:
            allowed = self._case.irreversible
            envelope = workspace.approve(json.dumps(plan).encode(), irreversible=allowed, life=timedelta(hours=1))
        _envelope(folders).write_bytes(envelope.canonical())

    def work(self, folders: ScenarioFolders, acknowledge: Acknowledge) -> None:
        with opened(folders) as workspace:
            acknowledge(apply(workspace, folders, self._meddling(folders)))

    def recover(self, folders: ScenarioFolders) -> None:
        if self._retried:
            self.work(folders, lambda _: None)
            return
        os.environ.update(environ(folders))
        main(["recover", "--workspace", str(root_of(folders))])

    def look(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        if not acknowledged:
            return []
        with opened(folders) as workspace:
            return self._contradictions(folders, acknowledged, _stored(workspace, folders))

    def judge(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        with opened(folders) as workspace:
            stored = _stored(workspace, folders)
            wrong = self._contradictions(folders, acknowledged, stored)
            if isinstance(stored, ClaimHeld):
                wrong.append(f"still unfinished, owned by {stored.owner}")
            wrong += self._misplaced(folders, stored)
            wrong += _miscounted(workspace, intents=1 if stored else 0)
            wrong += self._once_more(workspace, folders, stored)
            wrong += _miscounted(workspace, intents=1)
            wrong += _without_papers(folders, _stored(workspace, folders))
            wrong += self._no_way_back(workspace, folders)
            verdict = workspace.verify_ledger()
            return wrong if verdict.holds else [*wrong, f"the ledger does not verify: {verdict}"]

    # --- inside

    def _meddling(self, folders: ScenarioFolders) -> Callable[[StatusUpdate], None]:
        def listen(update: StatusUpdate) -> None:
            if update.phase == "RUNNING" and self._case.victim:
                (root_of(folders) / self._case.victim).unlink(missing_ok=True)

        return listen

    def _once_more(
        self, workspace: Workspace, folders: ScenarioFolders, stored: ClaimHeld | ClaimCompleted | None
    ) -> list[str]:
        """What was done is not done again; what was not begun can still be done."""
        outcomes = [apply(workspace, folders, self._meddling(folders)) for _ in range(2)]
        if outcomes[0] != outcomes[1]:
            return [f"two calls, two outcomes: {outcomes}"]
        if isinstance(stored, ClaimCompleted):
            return [] if outcomes[0] == stored.result else [f"stored {stored.result}, given {outcomes[0]}"]
        return self._misplaced(folders, _stored(workspace, folders))

    def _no_way_back(self, workspace: Workspace, folders: ScenarioFolders) -> list[str]:
        stored = _stored(workspace, folders)
        if not isinstance(stored, ClaimCompleted) or _status(stored.result) not in {"SUCCESS", "PARTIAL"}:
            return []
        restored = workspace.rollback("last")
        if restored.status != "EXECUTED":
            return [f"cannot be taken back: {restored.status} {restored.errors}"]
        # What has its own bytes again after the plan is no change to take back, though it is another file.
        same = {path for path, traits in self._case.before.items() if self._case.after.get(path) == traits}
        return self.differences(folders, "before", "taken back", untimed=same)

    def _contradictions(
        self, folders: ScenarioFolders, acknowledged: Sequence[str], stored: ClaimHeld | ClaimCompleted | None
    ) -> list[str]:
        """An outcome that was acknowledged is stored, and is in the world."""
        wrong = []
        for outcome in acknowledged:
            kept = stored.result if isinstance(stored, ClaimCompleted) else None
            if kept != outcome and (stored is not None or _status(outcome) != "REFUSED"):
                wrong.append(f"acknowledged {outcome[:300]}, stored {str(kept or stored)[:300]}")
            wrong += self.differences(folders, ENDS.get(_status(outcome), "before"), "acknowledged")
        return wrong

    def _misplaced(self, folders: ScenarioFolders, stored: ClaimHeld | ClaimCompleted | None) -> list[str]:
        status = _status(stored.result) if isinstance(stored, ClaimCompleted) else "nothing"
        return self.differences(folders, ENDS.get(status, "before"), f"stored {status}")

    def differences(self, folders: ScenarioFolders, due: str, said: str, untimed: Collection[str] = ()) -> list[str]:
        files = {"before": self._case.before, "after": self._case.after, "partly": self._case.partly or {}}[due]
        named = {path for one in self._case.actions for path in _named(one)} | set(self._case.named)
        timed = self._case.before.keys() - (set(untimed) if due == "before" else named)
        seeded = json.loads(_seeded(folders).read_text())
        expected = _expected(files, self._case.before, timed, seeded if due == "before" else {})
        found = _world(root_of(folders), timed, seeded)
        if self._case.victim and due == "before":  # somebody removed it, or not yet
            expected.pop(self._case.victim, None)
            found.pop(self._case.victim, None)
        both = {path: (found.get(path), expected.get(path)) for path in sorted(expected.keys() | found.keys())}
        wrong = {path: pair for path, pair in both.items() if pair[0] != pair[1]}
        return [f"{said}, not as {due}: {path} is {pair[0]}, not {pair[1]}" for path, pair in wrong.items()]


def root_of(folders: ScenarioFolders) -> Path:
    return folders.left / "project"


def _envelope(folders: ScenarioFolders) -> Path:
    return folders.state / "envelope.json"


def _seeded(folders: ScenarioFolders) -> Path:
    """The hashes of the files as they were made: two databases of one text need not be the same bytes."""
    return folders.state / "seeded.json"


def _named(action: Mapping[str, Any]) -> Iterator[str]:
    for path in (action.get("target"), action["operation"].get("save_results_to")):
        if path is not None:
            yield str(path)


def environ(folders: ScenarioFolders) -> Mapping[str, str]:
    servers = {name: value for name, value in os.environ.items() if name.startswith("REMIT_CRASH_")}
    return {"REMIT_STATE": str(folders.state / "home"), **servers}


def opened(folders: ScenarioFolders) -> Workspace:
    return Workspace.open(root_of(folders), environ=environ(folders))


def apply(
    workspace: Workspace, folders: ScenarioFolders, on_status: Callable[[StatusUpdate], None] = lambda _: None
) -> str:
    return workspace.apply(_envelope(folders).read_bytes(), on_status=on_status).canonical().decode()


def _status(outcome: str) -> str:
    status = json.loads(outcome)["status"]
    return str(status["status"]) if isinstance(status, dict) else "REFUSED"


def _stored(workspace: Workspace, folders: ScenarioFolders) -> ClaimHeld | ClaimCompleted | None:
    envelope_id = json.loads(_envelope(folders).read_bytes())["envelope_id"]
    with workspace.store.reading() as connection:
        return read_claim(connection, ClaimKey(DEFAULT_TENANT, "plan", envelope_id))


def _miscounted(workspace: Workspace, *, intents: int) -> list[str]:
    with workspace.store.reading() as connection:
        kinds = [row[0] for row in connection.rows("SELECT kind FROM ledger_entries ORDER BY seq")]
    if kinds.count("plan.intent") == kinds.count("plan.outcome") == intents:
        return []
    return [f"expected {intents} intent and outcome, the ledger has {kinds}"]


def _without_papers(folders: ScenarioFolders, stored: ClaimHeld | ClaimCompleted | None) -> list[str]:
    if not isinstance(stored, ClaimCompleted):
        return ["nothing is stored"]
    status = PlanOutcome.parse(stored.result.encode()).status
    wrong = []
    for name, field in PAPERS.items():
        expected = getattr(status, field)
        path = root_of(folders) / status.folder / name
        found = digest(json.loads(path.read_bytes())) if path.exists() else None
        if found != expected:
            wrong.append(f"{name} has {found}, and the status {expected}")
    return wrong


def _expected(files: Files, before: Files, timed: Collection[str], seeded: Mapping[str, str]) -> World:
    """Files, and the folders they are in. A folder that the plan empties stays."""
    folders = {str(folder) for path in (*files, *before) for folder in Path(path).parents}
    world: World = dict.fromkeys(folders - {"."}, ("folder", 0, None))
    for path, (content, mode) in files.items():
        is_database = path.endswith(DATABASE_SUFFIX)
        text = seeded.get(path) or (made_of(content) if is_database else _hash(content.encode()))
        world[path] = (text, mode, TIME_NS if path in timed else None)
    return world


def _world(root: Path, timed: Collection[str], seeded: Mapping[str, str]) -> World:
    """A database that is not the very bytes it was is told by what is in it."""
    world: World = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if name.parts[0] in NOT_THE_PROJECTS:
            continue
        if path.is_dir():
            world[str(name)] = ("folder", 0, None)
            continue
        found = path.stat()
        time_ns = found.st_mtime_ns if str(name) in timed else None
        text = _hash(path.read_bytes())
        if path.name.endswith(DATABASE_SUFFIX) and seeded.get(str(name)) != text:
            text = rows_and_shape(path)
        world[str(name)] = (text, found.st_mode & 0o7777, time_ns)
    return world


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
