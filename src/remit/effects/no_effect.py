"""An effect that does nothing: the whole road, with nothing at its end. For demos, probes and tests of the road."""

from typing import Final

from remit.contracts.result import NoEffectOutput
from remit.contracts.task import NO_EFFECT, TaskManifest
from remit.effects.registry import Capability

EXECUTOR_ID: Final = "remit.no-effect"


def run_no_effect(manifest: TaskManifest) -> NoEffectOutput:
    return NoEffectOutput(task_id=manifest.task_id, capability_id=NO_EFFECT)


CAPABILITY: Final = Capability(NO_EFFECT, EXECUTOR_ID, run_no_effect)
