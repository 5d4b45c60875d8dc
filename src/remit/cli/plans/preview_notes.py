"""Notes of previews, with which a later refusal can name what changed since.

A digest alone shows that something changed, but not what. So `remit preview` stores a short note of what its digest
covers: paths and digests, no content. No decision depends on a note. Without one, the refusal names less.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from remit.contracts.config.config import CONFIG_NAME
from remit.contracts.plans.envelope import ApprovedInput
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.core.canonical import canonical_bytes
from remit.core.errors import RemitError
from remit.core.text import printable
from remit.fs.atomic_write import PRIVATE_DIRECTORY, write_durably
from remit.plans.preparation.remote_sql import is_bound_server
from remit.workspace.workspace import Workspace

MAX_NOTES: Final = 100
MAX_BYTES: Final = 4 << 20
NAMED: Final = 5
_FOLDER: Final = "previews"


class Covered(Protocol):
    """The parts that the digest of a preview covers."""

    @property
    def plan_digest(self) -> str: ...
    @property
    def config_digest(self) -> str: ...
    @property
    def inputs(self) -> Sequence[ApprovedInput]: ...


class Note(NamedTuple):
    plan_digest: str
    config_digest: str
    inputs: tuple[ApprovedInput, ...]


def save_note(workspace: Workspace, document: PlanPreviewDocument) -> None:
    """Store a note if possible. A failed write does not prevent that the preview is shown."""
    note = {
        "plan_digest": document.plan_digest,
        "config_digest": document.config_digest,
        "inputs": [item.tree() for item in document.inputs],
    }
    path = _note_path(workspace, document.preview_digest)
    with contextlib.suppress(OSError, RemitError):
        path.parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        write_durably(path, canonical_bytes(note))
        _remove_oldest(path.parent)


def find_note(workspace: Workspace, digest: str) -> Note | None:
    """Return the note of the preview with this digest, or None if there is none any more."""
    try:
        with _note_path(workspace, digest).open("rb") as stream:
            tree = json.loads(stream.read(MAX_BYTES))
        inputs = tuple(ApprovedInput.from_tree(item) for item in tree["inputs"])
        return Note(str(tree["plan_digest"]), str(tree["config_digest"]), inputs)
    except (OSError, ValueError, KeyError, TypeError, RemitError):
        return None


def render_changes(before: Covered, now: Covered) -> str:
    """Return the changes as text, by name. Empty if there are none."""
    changes = list(_changes(before, now))
    more = f", and {len(changes) - NAMED:,} more" if len(changes) > NAMED else ""
    return ", ".join(changes[:NAMED]) + more


def _changes(before: Covered, now: Covered) -> Iterator[str]:
    if before.plan_digest != now.plan_digest:
        yield "the plan itself"
    if before.config_digest != now.config_digest:
        yield f"{CONFIG_NAME} (other settings)"
    then, current = {item.path: item for item in before.inputs}, {item.path: item for item in now.inputs}
    for path in dict.fromkeys((*then, *current)):
        if how := _how_it_changed(then.get(path), current.get(path)):
            yield f"{printable(path)} ({how})"


def _how_it_changed(before: ApprovedInput | None, now: ApprovedInput | None) -> str:
    if before is None:
        return "did not exist or was not read"
    if now is None:
        return "does not exist any more or is not read"
    if before.input_digest != now.input_digest:
        return "other rows" if is_bound_server(now.path) else "other content"
    return f"permissions {before.mode} -> {now.mode}" if before.mode != now.mode else ""


def _note_path(workspace: Workspace, digest: str) -> Path:
    return workspace.state.path / _FOLDER / f"{digest.removeprefix('sha256:')}.json"


def _remove_oldest(folder: Path) -> None:
    """Remove all but the newest notes, including a half-written file of a killed process."""
    notes = sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime_ns, reverse=True)
    for each in notes[MAX_NOTES:]:
        each.unlink(missing_ok=True)
