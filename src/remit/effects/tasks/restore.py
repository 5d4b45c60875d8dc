"""The effect FILE_RESTORE: restores a deleted file from its snapshot, with its bytes, mode, times, owner and
attributes.

It is the only effect that may set owner, mode and attributes, and only on the file that it has just made. The bytes,
mode and times are always restored, or the effect fails. The owner and the attributes that need privileges are restored
where this user may set them.
"""

import errno
import os
from collections.abc import Mapping
from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, UsageError
from remit.core.faultpoints import reach
from remit.effects.context import Effect, EffectContext
from remit.effects.file_copy import copy_content, create_part, remove_if_same, sha256_of
from remit.effects.tasks.file_steps import DESTINATION, Undoing, finish_made, opened, publish, require_free
from remit.fs.openat import identify

RECOVERY: Final = "recovery"
SNAPSHOT: Final = "snapshot"

_NOT_OURS_TO_SET: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EINVAL})
_SET_ID: Final = 0o6000
_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class Restore:
    """Makes a file at a path where there is none. The snapshot stays."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        spot, meta = work.spots[DESTINATION], _meta(work)
        require_free(spot)
        with Undoing(spot.path) as undo:
            # No other user may read it until it is complete and has its permissions.
            with opened(create_part(spot.folder, work.part_name, 0o600, where=spot.path)) as part:
                made = identify(part)
                undo.callback(remove_if_same, spot.folder, work.part_name, made, where=spot.path)
                reach("effect.part_made")
                copy_content(work.given[SNAPSHOT], part, meta["size"], work.progress)
                reach("effect.part_filled")
                if sha256_of(part) != meta["sha256"]:
                    raise EnvironmentFailureError(
                        Reason.EFFECT_FAILED,
                        "the bytes read from the snapshot are not the bytes that were stored",
                        where=spot.path,
                        next_step="Check the disk and the memory of this machine.",
                    )
                _apply_metadata(part, meta)
                reach("effect.attributes_set")
                os.fsync(part)
                reach("effect.part_synced")
                made = identify(part)
            publish(work, made, meta["sha256"], undo)
        return restore_output(work)

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        return restore_output(work) if finish_made(work, finish=finish) is not None else None


def restore_output(work: EffectContext) -> dict[str, Any]:
    return {
        "result_summary": {"source": work.inputs[RECOVERY], "destination": work.spots[DESTINATION].path},
        "undo_metadata": {},
    }


def _meta(work: EffectContext) -> Mapping[str, Any]:
    meta = work.checkpoint.get("meta")
    if not isinstance(meta, Mapping) or SNAPSHOT not in work.given:
        raise UsageError(
            Reason.MISUSE,
            'a restore needs the snapshot\'s descriptor as given["snapshot"] and its meta as checkpoint["meta"]',
            next_step="Pass both values that `open_snapshot` returns.",
        )
    return meta


def _apply_metadata(descriptor: int, meta: Mapping[str, Any]) -> None:
    """Set owner, attributes, mode and times. The owner is first, because changing it clears bits of the mode. The times
    are last, because all other changes set them.
    """
    mode = meta["mode"]
    try:
        os.fchown(descriptor, meta["uid"], meta["gid"])
    except OSError as problem:
        if problem.errno not in _NOT_OURS_TO_SET:
            raise
        mode &= ~_SET_ID  # a program that ran as another user must not run as this one
    for name, value in meta["xattrs"].items():
        _set_attribute(descriptor, name, _from_base64(value))
    os.fchmod(descriptor, mode)
    os.utime(descriptor, ns=(int(meta["atime_ns"]), int(meta["mtime_ns"])))


def _from_base64(text: str) -> bytes:
    """Decode base64 without its module, which loads two libraries that every fork would pay for."""
    bits = "".join(f"{_BASE64.index(character):06b}" for character in text.rstrip("="))
    whole = len(bits) // 8
    return int(bits[: whole * 8] or "0", 2).to_bytes(whole, "big")


def _set_attribute(descriptor: int, name: str, value: bytes) -> None:
    try:
        os.setxattr(descriptor, name, value)
    except OSError as problem:
        if problem.errno not in _NOT_OURS_TO_SET:
            raise


RESTORE: Final[Effect] = Restore()
