"""A host for honest effects, and orders for them."""

import os
from pathlib import Path
from typing import Any, Final, Literal

from remit.effects.registry import PathUse
from remit.sandbox.host import SandboxHost
from remit.sandbox.orders import FolderGrant, Order, Quotas

EFFECT: Final = "tests.sandbox.plain_effects:PLAIN"
ROOT: Final = Path(__file__).resolve().parents[2]
MIB: Final = 1 << 20
QUOTAS: Final = Quotas(memory_bytes=256 * MIB, read_bytes=64 * MIB, write_bytes=64 * MIB, seconds=10.0)


def plain_host(folder: Path, quotas: Quotas = QUOTAS, **more: Any) -> SandboxHost:
    settings = {"lock": folder / "hosts" / "this.lock", "import_paths": [str(ROOT)], **more}
    return SandboxHost([EFFECT], quotas, **settings)


def order(
    call: str, *, how: Literal["run", "finish", "undo"] = "run", folder: Path | None = None, **inputs: Any
) -> Order:
    """`folder` has files `source` and, to be made, `target`."""
    places = {}
    if folder is not None:
        base, parents = str(folder.parent), (folder.name,)
        places["source"] = FolderGrant(base, parents, "source", PathUse.READ)
        places["target"] = FolderGrant(base, parents, "target", PathUse.MAKE)
    return Order(
        effect=EFFECT,
        call=how,
        task_id="task-1",
        capability_id="PLAIN",
        inputs={"call": call, **inputs},
        reversible=True,
        part_name=".remit-0.part",
        places=places,
    )


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
