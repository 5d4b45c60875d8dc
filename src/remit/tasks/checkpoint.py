"""The preview of a task, as a sentence for people, and its checkpoint, which recovery after a crash reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from remit.contracts.tasks.task import TaskManifest
from remit.core.canonical import canonical_bytes
from remit.core.errors import mask_for_review
from remit.effects.registry import Capability, PathUse
from remit.execution.checkpoint_text import read_checkpoint
from remit.fs.openat import FileIdentity
from remit.fs.paths import Located

_VERBS: Final = {PathUse.READ: "read", PathUse.TAKE: "remove", PathUse.MAKE: "create"}


@dataclass(frozen=True, slots=True)
class TaskCheckpoint:
    """The checkpoint of a task. It holds no authority, because that ended with the process that had the lease."""

    manifest: TaskManifest
    before: Mapping[str, FileIdentity]
    """The file at each input path and its state, by the name of the input. A path without a file is absent."""
    snapshot: str | None
    """The reference of the snapshot of the whole file, if the capability takes one."""
    part_name: str
    """The name of the temporary file. It is random, so no other user can have put a file there."""


def render_preview(
    manifest: TaskManifest, capability: Capability, located: Mapping[str, Located], before: Mapping[str, FileIdentity]
) -> str:
    """Return one masked line: the files that the task will read, remove and create, and their sizes."""
    steps = [f"store a snapshot of {mask_for_review(located[capability.snapshot].path)}"] if capability.snapshot else []
    for name, place in located.items():
        size = f" ({before[name].size:,} bytes)" if name in before else ""
        steps.append(f"{_VERBS[capability.paths[name]]} {mask_for_review(place.path)}{size}")
    # Each part is masked separately. Otherwise a task id that looks like a password would also mask the paths after it.
    what = f"{mask_for_review(manifest.capability_id)} as task {mask_for_review(manifest.task_id)}"
    return f"{what}: {', '.join(steps)}" if steps else what


def render_checkpoint(checkpoint: TaskCheckpoint) -> str:
    before = {name: identity.as_json() for name, identity in checkpoint.before.items()}
    tree = {
        "manifest": checkpoint.manifest.tree(),
        "before": before,
        "snapshot": checkpoint.snapshot,
        "part": checkpoint.part_name,
    }
    return canonical_bytes(tree).decode()


def parse_checkpoint(text: str) -> TaskCheckpoint:
    """Parse a checkpoint. This is the inverse of `render_checkpoint`."""
    return read_checkpoint(text, _parse, "task")


def _parse(tree: Any) -> TaskCheckpoint:
    before = {name: FileIdentity.from_json(halves) for name, halves in tree["before"].items()}
    return TaskCheckpoint(TaskManifest.from_tree(tree["manifest"]), before, tree["snapshot"], tree["part"])
