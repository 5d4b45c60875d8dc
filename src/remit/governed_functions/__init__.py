"""`@governed` puts any Python function under the engine's steps; `acting` says who calls.

An agent's call of such a function needs a token, may need a person's approval, happens once for each key, is undone
when it fails if there is a way, and leaves a signed result and a record. The function runs in your own process,
`unconfined`: what it does is its own; what is governed is whether, for whom, with which arguments and how often.
"""

from remit.calls.acting import acting
from remit.calls.function import NotDoneError
from remit.governed_functions.decorator import Governed, governed, value_of
from remit.governed_functions.tool_schema import tool_of, tools_of

__all__ = ["Governed", "NotDoneError", "acting", "governed", "tool_of", "tools_of", "value_of"]
