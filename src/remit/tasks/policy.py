"""The policy of tasks: decides on a task without reading the disk.

An executor must implement the capability, and each path must be below a base directory.
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
                next_step=f"Use an implemented capability: {known}.",
            ),
        )
    )


Bases = Callable[[], tuple[str, ...]]
"""Returns the base directories. Only a task with a path calls it."""


def decide_task(manifest: TaskManifest, registry: Registry, bases: Bases) -> PolicyDecision:
    """Allow a task if its capability is registered, its inputs are valid, and each path is below a base directory."""
    capability = registry.get(manifest.capability_id)
    if capability is None:
        return decide_capability(manifest.capability_id, tuple(registry))
    granted = list(decide_capability(manifest.capability_id, tuple(registry)).granted_by)
    denials = []
    if capability.must_be_reversible and not manifest.constraints.reversible:
        denials.append(
            Denial(
                Reason.MALFORMED,
                f"{capability.capability_id} runs only as a reversible task, and this task is not reversible",
                where="manifest, constraints.reversible",
                next_step="Set constraints.reversible to true.",
            )
        )
    try:
        located = locate_paths(manifest, capability, bases)
        granted += [f"{name} lies beneath {place.base}" for name, place in located.items()]
    except RefusedError as problem:
        denials.append(Denial(problem.reason, problem.what, problem.where, problem.next_step))
    return PolicyDecision(tuple(granted), tuple(denials))


def close_inputs(manifest: TaskManifest, capability: Capability) -> dict[str, Any]:
    """Return the inputs, parsed by the capability's own contract. Refuses inputs that do not fit it."""
    inputs = manifest.inputs.tree() if isinstance(manifest.inputs, Contract) else manifest.inputs
    if type(manifest.inputs) is capability.inputs:  # checked already, when the manifest was parsed
        return dict(inputs)
    return capability.inputs.from_tree(inputs, source="manifest, inputs").tree()


def locate_paths(manifest: TaskManifest, capability: Capability, bases: Bases) -> dict[str, Located]:
    """Return the parts of each input that is a path. Refuses a path outside of all base directories."""
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
    """Locate one path. Cached, because each task needs it several times. Refusals are not cached."""
    place = locate(path, bases)
    (name,) = folded(place.name)
    if PART_NAME.fullmatch(name):
        raise RefusedError(
            Reason.PATH_REFUSED,
            "files with this name belong to running tasks, so no other task touches them",
            where=place.path,
            next_step="Name another file. `remit recover` removes such files after a crash.",
        )
    if name == CONFIG_NAME:
        raise RefusedError(
            Reason.PATH_REFUSED,
            f"{CONFIG_NAME} defines what Remit may do, so no task touches it",
            where=place.path,
            next_step="Change it yourself, in an editor.",
        )
    if is_own_folder(place.path.split("/")):
        raise RefusedError(
            Reason.PATH_REFUSED,
            "folders with this name hold the data of Remit about plans, so no task touches files in them",
            where=place.path,
            next_step="Name a file in another folder.",
        )
    return place


def new_part_name() -> str:
    return f".remit-{secrets.token_hex(12)}.part"
