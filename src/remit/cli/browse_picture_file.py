"""`remit browse -o`: the picture of a `screenshot`, for an agent that has no business in the state directory."""

import contextlib
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from remit.contracts.browser.browser import Action
from remit.core.errors import EnvironmentFailed, Reason, Refused
from remit.core.ids import DEFAULT_TENANT
from remit.fs.atomic_write import PRIVATE_FILE
from remit.store.claims import ClaimKey, Done, read_claim
from remit.workspace.workspace import Workspace


def require_room(path: Path, action: Action, workspace: Workspace) -> None:
    """Before anything is done. A file that is there already can only be this action's own, if it ended before."""
    if action.type != "screenshot":
        raise _refusal(Reason.MISUSE, f"only a screenshot has a picture, and this is a {action.type}", path)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise _refusal(Reason.MISUSE, "there is no such folder to write into", folder, f"Make it: mkdir -p '{folder}'")
    if os.path.lexists(path):
        with workspace.store.reading() as connection:
            claimed = read_claim(connection, ClaimKey(DEFAULT_TENANT, "browser", action.action_id))
        if not isinstance(claimed, Done):
            raise _taken(path)


def write_picture(path: Path, output: Mapping[str, Any]) -> None:
    """By the action's output. Nothing is ever overwritten; the same picture may be there."""
    told = output["screenshot"]
    try:
        picture = Path(told["path"]).read_bytes()
    except FileNotFoundError:
        advice = "Take a new one, under another id. browser.picture_days says how long they are kept."
        raise _refusal(Reason.FILE_MISSING, "this picture is no longer kept", path, advice) from None
    if sha256(picture).hexdigest() != told["sha256"]:
        raise EnvironmentFailed(
            Reason.EFFECT_FAILED, "the picture is not as it was taken", where=told["path"], next_step="Take a new one."
        )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    except FileExistsError:
        if not _holds(path, picture):
            raise _taken(path) from None
        return
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(picture)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _holds(path: Path, picture: bytes) -> bool:
    """A link or a pipe is nothing that we have written."""
    return path.is_file() and not path.is_symlink() and path.read_bytes() == picture


def _taken(path: Path) -> Refused:
    return _refusal(Reason.FILE_CONFLICT, "there is such a file already, and nothing is overwritten", path)


def _refusal(
    reason: Reason, what: str, where: Path, next_step: str = "Name another file, or do without -o."
) -> Refused:
    return Refused(reason, what, where=str(where), next_step=next_step)
