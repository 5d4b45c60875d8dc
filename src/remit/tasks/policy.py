"""May this task happen, as far as that can be said without looking at the disk?

Does anybody here implement what is asked?
"""

import functools
import secrets
from collections.abc import Callable, Collection
from typing import Any

from remit.contracts.base import Contract
from remit.contracts.config.config import CONFIG_NAME
from remit.contracts.tasks.task import TaskManifest
from remit.core.errors import Reason, RefusedError
from remit.effects.registry import Capability, Registry
from remit.execution.decision import Denial, PolicyDecision
from remit.execution.protected_paths import PART_NAME, folded, is_own_folder
from remit.fs.paths import Located, locate


def decide_capability(capability_id: str, implemented: Collection[str]) -> PolicyDecision:
    if capability_id in implemented:
        return PolicyDecision(granted_by=(f"executor implements {capability_id}",))
    known = ", ".join(sorted(implemented)) or "none"
    return PolicyDecision(
        denials=(
            Denial(
                Reason.CAPABILITY_UNSUPPORTED,
                f"no executor here implements {capability_id!r}",
                where="manifest, capability_id",
                next_step=f"Implemented are: {known}.",
            ),
        )
    )


Bases = Callable[[], tuple[str, ...]]
"""The allowed directories, asked for by a task that names a path."""


def decide_task(manifest: TaskManifest, registry: Registry, bases: Bases) -> PolicyDecision:
    """Somebody implements it, its inputs are what that one takes, and each path lies beneath an allowed directory."""
    capability = registry.get(manifest.capability_id)
    if capability is None:
        return decide_capability(manifest.capability_id, tuple(registry))
    granted = list(decide_capability(manifest.capability_id, tuple(registry)).granted_by)
    denials = []
    if capability.must_be_reversible and not manifest.constraints.reversible:
        denials.append(
            Denial(
                Reason.MALFORMED,
                f"{capability.capability_id} is done only if it can be undone, and this task does not ask for that",
                where="manifest, constraints.reversible",
                next_step="Ask with reversible: true.",
            )
        )
    try:
        located = locate_paths(manifest, capability, bases)
        granted += [f"{name} lies beneath {place.base}" for name, place in located.items()]
    except RefusedError as problem:
        denials.append(Denial(problem.reason, problem.what, problem.where, problem.next_step))
    return PolicyDecision(tuple(granted), tuple(denials))


def close_inputs(manifest: TaskManifest, capability: Capability) -> dict[str, Any]:
    """The inputs as the capability's own contract has them, or a refusal."""
    inputs = manifest.inputs.tree() if isinstance(manifest.inputs, Contract) else manifest.inputs
    if type(manifest.inputs) is capability.inputs:  # closed by it already, when the manifest was parsed
        return dict(inputs)
    return capability.inputs.from_tree(inputs, source="manifest, inputs").tree()


def locate_paths(manifest: TaskManifest, capability: Capability, bases: Bases) -> dict[str, Located]:
    """Each input that is a path, taken apart. Refuses one that lies outside of every allowed directory."""
    inputs = close_inputs(manifest, capability)
    names = [name for name in capability.paths if inputs.get(name) is not None]
    located = {name: _locate(inputs[name], bases()) for name in names}
    if len({place.path for place in located.values()}) < len(located):
        raise RefusedError(
            Reason.PATH_REFUSED,
            "source and destination are the same file",
            where="manifest, inputs",
            next_step="Name another destination.",
        )
    return located


@functools.lru_cache(maxsize=256)
def _locate(path: str, bases: tuple[str, ...]) -> Located:
    """Remembered for a while: each task asks several times, and a refusal is not kept."""
    place = locate(path, bases)
    (name,) = folded(place.name)
    if PART_NAME.fullmatch(name):
        raise RefusedError(
            Reason.PATH_REFUSED,
            "files of this name are tasks in progress, so no other task touches them",
            where=place.path,
            next_step="Name another file; `remit recover` clears away what a crash left.",
        )
    if name == CONFIG_NAME:
        raise RefusedError(
            Reason.PATH_REFUSED,
            f"{CONFIG_NAME} says what Remit may do, so no task touches it",
            where=place.path,
            next_step="Change it by hand.",
        )
    if is_own_folder(place.path.split("/")):
        raise RefusedError(
            Reason.PATH_REFUSED,
            "folders of this name hold what Remit keeps of plans, so no task touches what is in them",
            where=place.path,
            next_step="Name a file elsewhere.",
        )
    return place


def new_part_name() -> str:
    return f".remit-{secrets.token_hex(12)}.part"
