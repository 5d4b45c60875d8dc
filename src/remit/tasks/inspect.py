"""The host's inspection of the files of a task: before the effect for preview and checkpoint, and after it to verify.

All files are opened through `fs.openat`, and nothing is changed. Another process may change a file after the
inspection, so the effect compares again, on the descriptors that it uses.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from remit.core.errors import Reason, RefusedError
from remit.effects.registry import PathUse
from remit.execution.engine import VerificationFailedError
from remit.fs import openat as beneath
from remit.fs.openat import FileIdentity
from remit.fs.paths import Located


def inspect_before(
    located: Mapping[str, Located], uses: Mapping[str, PathUse], max_bytes: int
) -> dict[str, FileIdentity]:
    """Return the identity of the file at each path that the task reads or removes.

    Raises:
        RefusedError: A file is missing or too large, or a file exists where the task would create one.
    """
    identities = {}
    for name, place in located.items():
        with opened_folder(place) as folder:
            if uses[name] is PathUse.MAKE:
                if beneath.exists(folder, place.name):
                    raise beneath.already_exists(place.path)
                continue
            found = beneath.inspect_file(folder, place.name, where=place.path)
        if found.size > max_bytes:
            raise RefusedError(
                Reason.RESOURCE_EXHAUSTED,
                f"this file is larger than the {max_bytes:,} bytes that a task may handle",
                where=place.path,
                next_step="The limit is limits.max_file_bytes in remit.yaml.",
            )
        identities[name] = found
    return identities


def inspect_after(
    located: Mapping[str, Located], uses: Mapping[str, PathUse], before: Mapping[str, FileIdentity]
) -> dict[str, FileIdentity]:
    """Return the identity of the file at each path that the effect keeps or creates.

    Raises:
        VerificationFailedError: The files are not as the effect must leave them.
    """
    found: dict[str, FileIdentity] = {}
    for name, place in located.items():
        try:
            with opened_folder(place) as folder:
                if uses[name] is not PathUse.TAKE:
                    found[name] = beneath.inspect_file(folder, place.name, where=place.path)
                elif _still_exists(folder, place, before[name]):
                    raise contradiction_error("the file that should be gone is still there", place)
        except RefusedError as problem:
            raise contradiction_error(problem.what, place) from None
    return found


def contradiction_error(what: str, place: Located) -> VerificationFailedError:
    return VerificationFailedError(
        Reason.EFFECT_FAILED,
        f"the effect was reported as done, and then {what}",
        where=place.path,
        next_step="Check which other programs work in this folder. `remit ledger show` lists what the task did.",
    )


@contextmanager
def opened_folder(place: Located) -> Iterator[int]:
    base = beneath.open_base(place.base)
    try:
        folder = beneath.open_folder(base, place.parents, where=place.path)
    finally:
        os.close(base)
    try:
        yield folder
    finally:
        os.close(folder)


def _still_exists(folder: int, place: Located, before: FileIdentity) -> bool:
    """Return whether the same file is still there. Another file of the same name, created since, is not an error."""
    if not beneath.exists(folder, place.name):
        return False
    try:
        return beneath.inspect_file(folder, place.name, where=place.path).is_file(before.seen_from(folder))
    except RefusedError:
        return False
