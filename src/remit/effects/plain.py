"""What a sandboxed process can do with a plan that needs no parser of a file format. Its zygote stays small."""

from typing import Final

from remit.effects.carry_out import CarryOut
from remit.effects.check import PLAIN_JUDGES, Check
from remit.effects.content import find_in_result
from remit.effects.edits.plain import PLAIN
from remit.effects.handlers import HANDLERS
from remit.effects.simulate import Simulate
from remit.effects.work import Effect

SIMULATE: Final[Effect] = Simulate(PLAIN, HANDLERS, find_in_result)
CARRY_OUT: Final[Effect] = CarryOut(PLAIN, HANDLERS)
CHECK: Final[Effect] = Check(PLAIN_JUDGES)
