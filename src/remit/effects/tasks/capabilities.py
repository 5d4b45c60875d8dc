"""The capabilities of tasks: those of the file executor, of the restore executor, and the one that does nothing.

These are the declarations for the host. The code itself is in `files`, `restore` and `no_effect`. There are two
executors for files, because the first has exactly three capabilities, and none of them may ever set an owner or a mode.
"""

from typing import Final

from remit.contracts.tasks.result import CopyOutput, DeleteOutput, MoveOutput, NoEffectOutput, RestoreOutput
from remit.contracts.tasks.task import (
    FILE_COPY,
    FILE_DELETE,
    FILE_MOVE,
    FILE_RESTORE,
    NO_EFFECT,
    DeleteInputs,
    NoInputs,
    RestoreInputs,
    TransferInputs,
)
from remit.effects.registry import Capability, PathUse

FILE_EXECUTOR: Final = "remit.file"
RESTORE_EXECUTOR: Final = "remit.file-restore"

CAPABILITIES: Final = (
    Capability(
        FILE_MOVE,
        FILE_EXECUTOR,
        "remit.effects.tasks.files:MOVE",
        TransferInputs,
        MoveOutput,
        paths={"source_path": PathUse.TAKE, "destination_path": PathUse.MAKE},
    ),
    Capability(
        FILE_COPY,
        FILE_EXECUTOR,
        "remit.effects.tasks.files:COPY",
        TransferInputs,
        CopyOutput,
        paths={"source_path": PathUse.READ, "destination_path": PathUse.MAKE},
    ),
    Capability(
        FILE_DELETE,
        FILE_EXECUTOR,
        "remit.effects.tasks.files:DELETE",
        DeleteInputs,
        DeleteOutput,
        paths={"source_path": PathUse.TAKE},
        snapshot="source_path",
        must_be_reversible=True,
    ),
    Capability(
        FILE_RESTORE,
        RESTORE_EXECUTOR,
        "remit.effects.tasks.restore:RESTORE",
        RestoreInputs,
        RestoreOutput,
        paths={"destination_path": PathUse.MAKE},
        restores="recovery",
    ),
)


CAPABILITY: Final = Capability(
    NO_EFFECT, "remit.no-effect", "remit.effects.tasks.no_effect:NO_EFFECT", NoInputs, NoEffectOutput
)
