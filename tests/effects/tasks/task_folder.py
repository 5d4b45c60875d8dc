"""A place to work in, and tasks on it as the host prepares them: located, opened beneath a base, looked at first."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from remit.effects.context import Effect, EffectContext, PathHandle
from remit.effects.registry import PathUse
from remit.effects.tasks.capabilities import CAPABILITIES
from remit.effects.tasks.files import COPY, DELETE, MOVE
from remit.effects.tasks.restore import RESTORE
from remit.fs import openat as beneath
from remit.fs.paths import locate
from remit.tasks.snapshots import open_snapshot, take_snapshot

EFFECTS: Final[dict[str, Effect]] = {
    "FILE_MOVE": MOVE,
    "FILE_COPY": COPY,
    "FILE_DELETE": DELETE,
    "FILE_RESTORE": RESTORE,
}
DECLARED: Final = {capability.capability_id: capability for capability in CAPABILITIES}
MAX_BYTES: Final = 64 << 20


@dataclass
class Place:
    """Two allowed directories, `here` and `there` (one filesystem, or two), a snapshot folder, and an outside."""

    root: Path
    here: Path
    there: Path
    stack: ExitStack
    bases: tuple[str, ...] = ()
    notes: list[Mapping[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bases = self.bases or (str(self.here), str(self.there))

    @property
    def snapshots(self) -> Path:
        return self.root / "state" / "snapshots"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    def file(self, name: str, content: bytes = b"some bytes", mode: int = 0o644) -> Path:
        path = self.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
        return path

    def prepare(self, capability_id: str, *, reversible: bool = True, **inputs: str | Path) -> EffectContext:
        """What the host does before the intent. Raises as it would."""
        self.notes.clear()
        capability = DECLARED[capability_id]
        words = {name: str(value) for name, value in inputs.items()}
        before, checkpoint = {}, {}
        for name, use in capability.paths.items():
            spot = self.spot(words[name])
            if use is PathUse.MAKE:
                if beneath.exists(spot.folder, spot.name):
                    raise beneath.already_exists(spot.path)
            else:
                before[name] = beneath.inspect_file(spot.folder, spot.name, where=spot.path).as_json()
        if capability.snapshot is not None:
            located = locate(words[capability.snapshot], self.bases)
            expected = beneath.FileIdentity.from_json(before[capability.snapshot])
            checkpoint["snapshot"] = take_snapshot(located, self.snapshots, MAX_BYTES, expected)
        return self.work(capability_id, words, before, checkpoint, reversible=reversible)

    def work(
        self,
        capability_id: str,
        inputs: Mapping[str, str],
        before: Mapping[str, Mapping[str, int]],
        checkpoint: Mapping[str, Any],
        *,
        reversible: bool = True,
    ) -> EffectContext:
        """The task as the sandboxed process gets it."""
        capability = DECLARED[capability_id]
        given = {}
        if capability.restores is not None:
            descriptor, meta = open_snapshot(self.snapshots, inputs[capability.restores])
            self.stack.callback(os.close, descriptor)
            given, checkpoint = {"snapshot": descriptor}, {**checkpoint, "meta": meta}
        # Through JSON, as it crosses to the sandbox.
        frozen = json.loads(json.dumps({"before": before, "checkpoint": checkpoint}))
        digest = hashlib.sha256(json.dumps([capability_id, dict(inputs)]).encode()).hexdigest()
        return EffectContext(
            task_id="t-1",
            capability_id=capability_id,
            inputs=inputs,
            reversible=reversible,
            part_name=f".remit-{digest[:24]}.part",
            spots={name: self.spot(inputs[name]) for name in capability.paths},
            before=frozen["before"],
            checkpoint=frozen["checkpoint"],
            given=given,
            note=self.notes.append,
        )

    def spot(self, path: str) -> PathHandle:
        located = locate(path, self.bases)
        base = beneath.open_base(located.base)
        self.stack.callback(os.close, base)
        folder = beneath.open_folder(base, located.parents, where=path)
        self.stack.callback(os.close, folder)
        return PathHandle(located.path, folder, located.name)

    def run(self, capability_id: str, *, reversible: bool = True, **inputs: str | Path) -> dict[str, Any]:
        work = self.prepare(capability_id, reversible=reversible, **inputs)
        return EFFECTS[capability_id].run(work)

    def settle(
        self, work: EffectContext, *, finish: bool, notes: tuple[Mapping[str, Any], ...] = ()
    ) -> dict[str, Any] | None:
        """With these notes and those of this process: the ledger has all of a task."""
        return EFFECTS[work.capability_id].settle(work._replace(notes=(*notes, *self.notes)), finish=finish)


def world(*folders: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything in these folders: mode and bytes of each file, target of each link."""
    return dict(sorted(_entries(folders)))


def _entries(folders: tuple[Path, ...]) -> Iterator[tuple[str, tuple[int, bytes | str]]]:
    for folder in folders:
        for path in folder.rglob("*"):
            found = path.lstat()
            if path.is_symlink():
                yield str(path), (found.st_mode, str(path.readlink()))
            elif path.is_file():
                yield str(path), (found.st_mode, path.read_bytes())
            else:
                yield str(path), (found.st_mode, "")
