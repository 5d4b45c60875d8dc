"""A host as plans have it, and orders with steps for it."""

from pathlib import Path
from typing import Any, Final

from remit.effects.registry import PathUse
from remit.sandbox.host import SandboxHost
from remit.sandbox.orders import FolderGrant, Order, Quotas
from tests.sandbox.hostile_sandbox import PLANS
from tests.sandbox.plain_host import QUOTAS, ROOT

EFFECT: Final = "tests.sandbox.stepping_effects:STEPPING"


def stepping_host(folder: Path, quotas: Quotas = QUOTAS, **more: Any) -> SandboxHost:
    lock = folder / "hosts" / "this.lock"
    return SandboxHost([EFFECT], quotas, **{"lock": lock, "import_paths": [str(ROOT)], "build": PLANS, **more})


def steps(
    call: str,
    paces: tuple[float, ...] = (),
    *,
    seconds: float | None = None,
    places: dict[str, FolderGrant] | None = None,
    **inputs: Any,
) -> Order:
    return Order(
        effect=EFFECT,
        call="run",
        task_id="envelope-1",
        capability_id="PLAN",
        inputs={"call": call, **inputs},
        reversible=True,
        part_name="",
        places=places or {},
        seconds=seconds,
        paces=paces,
    )


def place(folder: Path, name: str, use: PathUse = PathUse.MAKE) -> FolderGrant:
    return FolderGrant(str(folder.parent), (folder.name,), name, use)


def said(number: int, phase: str, **more: Any) -> dict[str, Any]:
    return {"number": number, "phase": phase, **more}
