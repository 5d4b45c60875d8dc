"""Input files of SQL actions, and result files that they replace, read at one moment."""

import os

from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.effects.file_copy import sha256_of
from remit.effects.plans.files import mismatch, require_ordinary, too_large
from remit.effects.plans.steps import State
from remit.fs import openat as beneath
from remit.fs.paths import Located, locate_below
from remit.plans.engines.database_files import closing
from remit.plans.model.folders import opened


def folder_is_missing(place: Located) -> bool:
    try:
        with opened(place.base, place.parents, where=place.path):
            return False
    except RefusedError as problem:
        if problem.reason is not Reason.FILE_MISSING:
            raise
        return True


def read_results_state(place: Located, most: int) -> State | None:
    if folder_is_missing(place):
        return None
    with opened(place.base, place.parents, where=place.path) as folder:
        if not beneath.exists(folder, place.name):
            return None
        with closing(beneath.open_file(folder, place.name, where=place.path)) as descriptor:
            identity = beneath.identify(descriptor)
            require_ordinary(identity, where=place.path)
            if identity.size > most:
                raise too_large(identity.size, most, place.path)
            return State(sha256_of(descriptor), identity.size, identity.mode & 0o777)


def read_all(descriptor: int, most: int, where: str) -> tuple[bytes, str]:
    """Read the whole file at one moment. Return its content and digest."""
    identity = beneath.identify(descriptor)
    if identity.size > most:
        raise too_large(identity.size, most, where)
    text = os.pread(descriptor, most + 1, 0)
    if beneath.identify(descriptor) != identity or len(text) != identity.size:
        raise mismatch("the file was changed while it was read", where)
    return text, digest_bytes(text)


def read_below(root: str, path: str, most: int) -> tuple[bytes, str]:
    """Read a file by its path below the root. Return its content and digest."""
    place = locate_below(root, path)
    with (
        opened(place.base, place.parents, where=place.path) as folder,
        closing(beneath.open_file(folder, place.name, where=place.path)) as descriptor,
    ):
        return read_all(descriptor, most, place.path)
