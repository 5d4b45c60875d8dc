"""Reads pictures of pages. It reads only files in the folder of pictures that have a name as Remit makes it."""

import contextlib
import os
import re
from pathlib import Path
from typing import Final

from remit.core.errors import Reason, RefusedError
from remit.fs.state_dir import StateDirectory

SCREENSHOT_FOLDER: Final = "screens"
MAX_BYTES: Final = 32 << 20
_NAME: Final = re.compile(r"[0-9a-f]{32}\.png")
_PNG: Final = b"\x89PNG\r\n\x1a\n"


def read_picture(state: StateDirectory, stored_path: str | None, where: str) -> bytes:
    """Return a picture by its recorded path. A row of the database that names another file has no effect."""
    name = Path(stored_path or "").name
    if not _NAME.fullmatch(name):
        raise _missing_error(where, "no picture is stored")
    try:
        folder = os.open(
            state.path / "browser" / SCREENSHOT_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        )
    except OSError:
        raise _missing_error(where, "this picture is no longer kept") from None
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        raise _missing_error(where, "this picture is no longer kept") from None
    finally:
        os.close(folder)
    with contextlib.closing(os.fdopen(descriptor, "rb")) as stream:
        picture = stream.read(MAX_BYTES + 1)
    if not picture.startswith(_PNG) or len(picture) > MAX_BYTES:
        raise _missing_error(where, "the stored file is not a picture")
    return picture


def _missing_error(where: str, what: str) -> RefusedError:
    return RefusedError(
        Reason.STATE_MISSING,
        what,
        where=where,
        next_step="The setting browser.picture_days says how long pictures are kept.",
    )
