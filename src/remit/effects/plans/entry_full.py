"""The effects for any plan, with editors for JSON, YAML, patterns and schemas."""

from functools import partial
from typing import Final

from remit.effects.context import Effect
from remit.effects.edits.json_schema import require_valid_schema
from remit.effects.edits.registry_full import FULL_EDITORS
from remit.effects.plans.apply import ApplyEffect
from remit.effects.plans.content_scan import find_in_result
from remit.effects.plans.handlers import handlers
from remit.effects.plans.simulate import Simulate
from remit.effects.plans.validate import RuleCheck
from remit.effects.plans.validate_documents import FULL_JUDGES
from remit.effects.plans.yaml_files import FULL_CHECKS

_HANDLERS: Final = handlers(require_valid_schema)

SIMULATE: Final[Effect] = Simulate(FULL_EDITORS, _HANDLERS, partial(find_in_result, checks=FULL_CHECKS))
APPLY: Final[Effect] = ApplyEffect(FULL_EDITORS, _HANDLERS)
CHECK: Final[Effect] = RuleCheck(FULL_JUDGES)
