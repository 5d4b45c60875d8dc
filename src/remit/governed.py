"""Kept for one release: import these names from `remit`.

`from remit import governed` imports the decorator. After a program has imported this module, that name is the module,
so the module can be called like the decorator.
"""

import sys
from types import ModuleType
from typing import Any

from remit.calls.acting import acting
from remit.calls.function import NotDoneError
from remit.governed_functions.decorator import Governed, governed, value_of
from remit.governed_functions.tool_schema import tool_of, tools_of

__all__ = ["Governed", "NotDone", "NotDoneError", "acting", "governed", "tool_of", "tools_of", "value_of"]

NotDone = NotDoneError


class _CallableModule(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return governed(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule
