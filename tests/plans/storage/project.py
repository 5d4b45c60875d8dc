"""A project, and plans carried out on it by hand: backups and manifest are the real ones, the edits are not."""

import hashlib
import os
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from remit.contracts.config.config import Limits
from remit.contracts.plans.rollback import RollbackManifest
from remit.effects.plans.steps import Ids, PlanStep, State, StepPlan, ends, make_waves
from remit.fs.paths import locate_below
from remit.plans.storage.backups import Original, back_up_files
from remit.plans.storage.manifest import build_manifest, net_changes, write_rollback_files
from remit.plans.storage.run_folder import ReportFolder, folder_name

AT: Final = datetime(2026, 11, 15, 15, 45, 1, 123456, UTC)
CREATED: Final = "2026-11-15T15:45:01.123456Z"
EXPIRES: Final = "2999-12-15T15:45:01.123456Z"
LIMITS: Final = Limits()

Action = tuple[str, str, bytes | str | None]
"""move, path, and new content or new path."""


def state_of(content: bytes, mode: int = 0o644) -> State:
    return State("sha256:" + hashlib.sha256(content).hexdigest(), len(content), mode)


@dataclass(frozen=True)
class Done:
    """A plan that was carried out."""

    name: str
    ids: Ids
    plan: StepPlan
    first: Mapping[int, State | None]
    originals: Mapping[int, Original]
    manifest: RollbackManifest

    def checkpoint(self, path: str) -> str:
        return next(c.checkpoint_id for c in self.manifest.checkpoints if c.file_path == path)


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)

    @property
    def base(self) -> str:
        return str(self.root)

    def write(self, path: str, content: bytes, mode: int = 0o644) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(mode)
        return place

    def tree(self) -> dict[str, tuple[bytes, int] | None]:
        """All but what Remit writes itself; None for a folder."""
        own = ("agent_outputs", "agent_logs")
        places = [path for path in self.root.rglob("*") if path.relative_to(self.root).parts[0] not in own]
        return {
            str(path.relative_to(self.root)): None
            if path.is_dir()
            else (path.read_bytes(), path.stat().st_mode & 0o7777)
            for path in places
        }

    def report(self, done: Done) -> Path:
        return self.root / "agent_outputs" / "reports" / done.name

    def state(self, path: str) -> State | None:
        place = self.root / path
        return state_of(place.read_bytes(), place.stat().st_mode & 0o777) if place.is_file() else None

    def plan(self, actions: Collection[Action]) -> tuple[StepPlan, dict[int, State | None]]:
        paths: dict[str, int] = {}
        steps: list[PlanStep] = []
        now: dict[int, State | None] = {}
        first: dict[int, State | None] = {}
        for number, (move, path, what) in enumerate(actions):
            named = [path, what] if isinstance(what, str) else [path]
            for name in named:
                index = paths.setdefault(name, len(paths))
                first.setdefault(index, self.state(name))
                now.setdefault(index, first[index])
            before = now[paths[path]]
            mode = before.mode if before else 0o644
            after = state_of(what, mode) if isinstance(what, bytes) else before if move == "rename" else None
            new = paths[what] if isinstance(what, str) else None
            kind = f"FILE_{move.upper()}"
            step = PlanStep(number, f"a{number:03}", kind, move, paths[path], new, before=before, after=after)  # type: ignore[arg-type]
            steps.append(step)
            now.update(ends(step))
        return StepPlan("0" * 20, tuple(paths), tuple(steps), make_waves(steps, {})), first

    def run_plan(self, actions: Collection[Action], expires: str | None = EXPIRES) -> Done:
        """Backups, manifest and script first; then the changes."""
        plan, first = self.plan(actions)
        numbers = str(uuid.uuid4()), str(uuid.uuid4()), str(uuid.uuid4())
        ids = Ids(f"envelope-{numbers[0][:8]}", *numbers)
        folders = self.missing_folders(plan.paths)
        located = [locate_below(self.base, path) for path in plan.paths]
        with ReportFolder.make(self.base, folder_name(AT, ids.envelope_id)) as folder:
            originals = back_up_files(located, first, folder, LIMITS)
            changes = net_changes(plan, first, range(len(plan.steps)))
            manifest = build_manifest(
                ids, "plan-1", plan.paths, changes, originals, folders, folder.path, CREATED, expires
            )
            write_rollback_files(folder, manifest)
            name = folder.name
        for move, path, what in actions:
            self._act(move, path, what)
        return Done(name, ids, plan, first, originals, manifest)

    def missing_folders(self, paths: Collection[str]) -> list[str]:
        wanted = {str(parent) for path in paths for parent in Path(path).parents if str(parent) != "."}
        return sorted((path for path in wanted if not (self.root / path).exists()), key=lambda path: path.count("/"))

    def _act(self, move: str, path: str, what: bytes | str | None) -> None:
        place = self.root / path
        if isinstance(what, bytes):
            mode = place.stat().st_mode & 0o777 if move == "modify" else 0o644
            self.write(path, what, mode)
        elif isinstance(what, str):
            (self.root / what).parent.mkdir(parents=True, exist_ok=True)
            os.rename(place, self.root / what)
        else:
            place.unlink()
