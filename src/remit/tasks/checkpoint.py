"""What the task door writes down before it acts: the sentence for people, and the checkpoint for whoever takes over."""

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

_VERBS: Final = {PathUse.READ: "read", PathUse.TAKE: "take away", PathUse.MAKE: "make"}


@dataclass(frozen=True, slots=True)
class TaskCheckpoint:
    """A task as its checkpoint knows it. No authority is in it: that ended with the process that had the lease."""

    manifest: TaskManifest
    before: Mapping[str, FileIdentity]
    """By input: which file it was, and in what state. A path where nothing was has none."""
    snapshot: str | None
    """Where the whole file is kept."""
    part_name: str
    """The name of bytes on their way. Drawn at random, so nobody can have put a file of his there."""


def render_preview(
    manifest: TaskManifest, capability: Capability, located: Mapping[str, Located], before: Mapping[str, FileIdentity]
) -> str:
    """One masked line: which files will be read, taken away and made, and how large they are."""
    steps = [f"keep a snapshot of {mask_for_review(located[capability.snapshot].path)}"] if capability.snapshot else []
    for name, place in located.items():
        size = f" ({before[name].size:,} bytes)" if name in before else ""
        steps.append(f"{_VERBS[capability.paths[name]]} {mask_for_review(place.path)}{size}")
    # Each part by itself: a task may be called after a password, and the files that it names are none.
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
    """The inverse of `render_checkpoint`."""
    return read_checkpoint(text, _parse, "task")


def _parse(tree: Any) -> TaskCheckpoint:
    before = {name: FileIdentity.from_json(halves) for name, halves in tree["before"].items()}
    return TaskCheckpoint(TaskManifest.from_tree(tree["manifest"]), before, tree["snapshot"], tree["part"])
