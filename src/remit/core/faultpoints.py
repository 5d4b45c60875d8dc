"""Fault points: named places where a test can crash the process. Each costs one comparison unless one is armed.

`REMIT_FAULT=name`, `name:3` (the third time) or `name:1:error` arms one point for this process. The default action is
SIGKILL on the process itself. Nothing runs after it, no `finally` and no flush, as in a real crash.

A sandboxed process has no environment and may not kill. For it there is `REMIT_FAULT=announce`: it reports every point
to a supervisor by a write to standard output. The supervisor of the crash tests sees each write, and kills.
"""

import errno
import itertools
import os
import signal
from typing import Final

# Every durable step is listed here, so that the kill tests can walk the list and no point is forgotten.
FAULT_POINTS: Final = frozenset(
    {
        "append.begun",
        "append.inserted",
        "append.signed",
        "append.before_commit",
        "append.committed",
        "append.anchored",
        "migration.begun",
        "migration.statement",
        "migration.before_commit",
        "migration.committed",
        "durable.written",
        "durable.synced",
        "durable.renamed",
        "durable.directory_synced",
        "keys.private_written",
        "keys.keyring_written",
        "claim.before_commit",
        "counted.row_written",
        "counted.recorded",
        "adopt.renamed",
        "road.checkpoint_made",
        "road.intent_recorded",
        "road.taken_over",
        "road.settled",
        "road.undone",
        "road.noted",
        "road.effect_done",
        "road.published",
        "road.outcome_recorded",
        "effect.moved",
        "effect.move_synced",
        "effect.part_made",
        "effect.part_filled",
        "effect.part_synced",
        "effect.published",
        "effect.folder_synced",
        "effect.set_aside",
        "effect.removed",
        "effect.removal_synced",
        "effect.attributes_set",
        "snapshot.folder_made",
        "snapshot.content_synced",
        "snapshot.meta_synced",
        "snapshot.published",
        "backup.folder_made",
        "backup.copied",
        "backup.manifest_written",
        "plan.folders_made",
        "plan.staged",
        "plan.stage_synced",
        "plan.switched",
        "plan.synced",
        "plan.step_undone",
        "plan.undone",
        "plan.published",
        "plan.clearing",
        "plan.cleared_one",
        "plan.cleared",
        "plan.folders_removed",
        "rollback.clearing",
        "prune.renamed",
        "prune.removed",
        "sql.copied",
        "sql.prepared",
        "pipeline.filled",
        "pipeline.taken",
        "preview.outputs_copied",
        "preview.outputs_kept",
        "preview.recorded",
        "preview.stored",
        "preview.referred",
        "preview.released",
        "preview.rows_pruned",
        "preview.outputs_removed",
        "elsewhere.begun",
        "elsewhere.rows_kept",
        "elsewhere.noted",
        "elsewhere.committed",
        "browser.asked",
        "browser.answered",
        "browser.released",
        "browser.ended",
        "call.asked",
        "call.begun",
        "call.returned",
        "goal.documents_kept",
        "goal.decided",
        "goal.step_begun",
        "goal.ending",
        "goal.ended",
        "simulation.dispatched",
        "simulation.retried",
        "simulation.rolled_back",
        "simulation.ran",
        "proposal.inserted",
        "proposal.made",
        "proposal.approved",
        "proposal.answered",
        "proposal.preview_stored",
        "proposal.previewed",
        "clock.accepting",
        "clock.accepted",
        "people.ended",
        "people.recorded",
    }
)


ANNOUNCE: Final = "announce"
ANNOUNCEMENT: Final = b"remit-fault "
"""The prefix of a write to standard output that announces a point."""


class InjectedFaultError(OSError):
    """The error of an armed point whose action is `error`. It looks like a full disk."""


def parse_setting(setting: str) -> tuple[str, int, str]:
    """Return the point, the occurrence, and the action. ValueError says what is wrong with the setting."""
    if setting == ANNOUNCE:
        return "", 0, ANNOUNCE
    name, _, rest = setting.partition(":")
    count, _, action = rest.partition(":")
    if name not in FAULT_POINTS:
        raise ValueError(f"names no fault point: {name!r}")
    if action not in {"", "kill", "error"} or not (count or "1").isdecimal() or int(count or 1) < 1:
        raise ValueError(f"is not name, name:count or name:count:error: {setting!r}")
    return name, int(count or 1), action or "kill"


def setting_problem(setting: str) -> str:
    """Return what is wrong with a value of REMIT_FAULT, or an empty text."""
    try:
        parse_setting(setting)
    except ValueError as problem:
        return str(problem)
    return ""


_mistake = ""
_target: tuple[str, int, str] | None = None
_times = itertools.count(1)  # its `next` is atomic: two threads never see the same number


def reach(name: str) -> None:
    """Mark that execution is here. Does nothing unless this point is armed. An invalid setting stops at any point."""
    if _target is not None and _target[0] in {name, ""}:
        _fire(name, _target)


def announce() -> None:
    arm(ANNOUNCE)


def arm(setting: str) -> None:
    """Arm a point, as if this process had been started with this REMIT_FAULT.

    A mistake is not raised here: `remit doctor` must be able to load this module and report what is wrong.
    """
    global _mistake, _target  # noqa: PLW0603 - the one switch; a forked process, or one without an environment, sets it late
    _mistake = setting_problem(setting)
    _target = ("", 0, "") if _mistake else parse_setting(setting)


def is_announcing() -> bool:
    return _target is not None and _target[2] == ANNOUNCE


def _fire(name: str, target: tuple[str, int, str]) -> None:
    if _mistake:
        raise ValueError(f"REMIT_FAULT {_mistake}")
    if target[2] == ANNOUNCE:
        os.write(1, ANNOUNCEMENT + name.encode() + b"\n")
        return
    if next(_times) != target[1]:
        return
    if target[2] == "error":
        raise InjectedFaultError(errno.ENOSPC, "fault injected", target[0])
    os.kill(os.getpid(), signal.SIGKILL)


if os.environ.get("REMIT_FAULT"):
    arm(os.environ["REMIT_FAULT"])
