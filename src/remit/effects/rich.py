"""What a sandboxed process can do with any plan: JSON, YAML, patterns and schemas included."""

from functools import partial
from typing import Final

from remit.effects.carry_out import CarryOut
from remit.effects.check import Check
from remit.effects.content import find_in_result
from remit.effects.document_rules import RICH_JUDGES
from remit.effects.edits.rich import RICH
from remit.effects.edits.schema import require_valid_schema
from remit.effects.handlers import handlers
from remit.effects.simulate import Simulate
from remit.effects.work import Effect
from remit.effects.yaml_files import RICH_CHECKS

_HANDLERS: Final = handlers(require_valid_schema)

SIMULATE: Final[Effect] = Simulate(RICH, _HANDLERS, partial(find_in_result, checks=RICH_CHECKS))
CARRY_OUT: Final[Effect] = CarryOut(RICH, _HANDLERS)
CHECK: Final[Effect] = Check(RICH_JUDGES)
