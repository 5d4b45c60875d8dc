"""`@governed` puts any Python function under the engine's steps. `acting` names the agent that calls it.

An agent's call of such a function needs a token and may need a person's approval. It happens once for each key, is
undone after a failure if it has an undo function, and leaves a signed result and a record. The function runs in your
own process, `unconfined`: Remit governs whether it is called, for which agent, with which arguments and how often. It
does not limit what the function does.
"""

from remit.calls.acting import acting
from remit.calls.function import NotDoneError
from remit.governed_functions.decorator import Governed, governed, value_of
from remit.governed_functions.tool_schema import tool_of, tools_of

__all__ = ["Governed", "NotDoneError", "acting", "governed", "tool_of", "tools_of", "value_of"]
