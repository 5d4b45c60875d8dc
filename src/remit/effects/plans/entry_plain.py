"""The effects for a plan that needs no parser of a file format. Their zygote stays small."""

from typing import Final

from remit.effects.context import Effect
from remit.effects.edits.registry_plain import PLAIN_EDITORS
from remit.effects.plans.apply import ApplyEffect
from remit.effects.plans.content_scan import find_in_result
from remit.effects.plans.handlers import HANDLERS
from remit.effects.plans.simulate import Simulate
from remit.effects.plans.validate import PLAIN_JUDGES, RuleCheck

SIMULATE: Final[Effect] = Simulate(PLAIN_EDITORS, HANDLERS, find_in_result)
APPLY: Final[Effect] = ApplyEffect(PLAIN_EDITORS, HANDLERS)
CHECK: Final[Effect] = RuleCheck(PLAIN_JUDGES)
