"""The declaration of the effect that does nothing. The host's side: the code itself is in `no_effect`."""

from typing import Final

from remit.contracts.tasks.result import NoEffectOutput
from remit.contracts.tasks.task import NO_EFFECT, NoInputs
from remit.effects.registry import Capability

CAPABILITY: Final = Capability(
    NO_EFFECT, "remit.no-effect", "remit.effects.tasks.no_effect:NO_EFFECT", NoInputs, NoEffectOutput
)
