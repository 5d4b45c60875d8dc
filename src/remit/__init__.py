"""Remit runs actions for AI agents, but only those that a signed authority, a policy and an approval allow.

Actions run in a sandbox, can be undone, and are recorded in a ledger. Every request takes the same steps, in
`execution/engine.py`: parse, verify authority, decide, preview, consent, checkpoint, intent, effect, verify, outcome,
report. An operation implements them for one kind of request: `plans/operation.py` for a plan. `tasks`, `browser`,
`calls` and `goals` have their own operations.

Programs that use Remit import from `remit`. Authors of executors import from `remit.executors`, and test with
`remit.testing.check_capability`. Every other module is internal: any release may move, rename or remove it.

Continue with `execution/engine.py`, then `plans/operation.py`, then `plans/apply/executor.py`. docs/architecture.md
lists all packages and the imports that are allowed; import-linter checks them (pyproject.toml). It also has the whole
list of places for each addition below, with the test that notices a forgotten place.

Where to add things:

a CLI command              a module in `cli`, its row in `COMMAND_GROUPS` (`cli/__init__.py`), and a row in
                           `COMMAND_PERMISSIONS` (`cli/common/permissions.py`)
an HTTP route, an MCP tool `web/api`, `mcp_server/tools`: thin; both call `services`
a model of a document      `contracts`
an edit or a file action   `contracts/plans`, `effects`, `plans/runtime/steps.py`: see `plans/apply/executor.py`
a policy check of a plan   `plans/policy/plan.py`
a field of a report        `contracts/plans/report.py` and `plans/reports`: see `plans/operation.py`
a fault point              `FAULT_POINTS` in `core/faultpoints.py`: see `execution/engine.py`
a ledger entry             a `NewEntry` where the event happens; `ledger` writes and verifies
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from remit.version import __version__

if TYPE_CHECKING:
    from remit.authority.capability_token import TokenRequest
    from remit.calls.acting import acting
    from remit.calls.function import NotDoneError
    from remit.contracts.browser.browser import TokenConstraints
    from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
    from remit.governed_functions.decorator import governed
    from remit.governed_functions.tool_schema import tool_of, tools_of
    from remit.workspace.create import initialise
    from remit.workspace.workspace import Workspace

__all__ = [
    "EnvironmentFailureError",
    "NotDoneError",
    "Reason",
    "RefusedError",
    "RemitError",
    "TokenConstraints",
    "TokenRequest",
    "UsageError",
    "Workspace",
    "__version__",
    "acting",
    "governed",
    "initialise",
    "tool_of",
    "tools_of",
]

_DEFINED_IN: Final = {
    "EnvironmentFailureError": "remit.core.errors",
    "NotDoneError": "remit.calls.function",
    "Reason": "remit.core.errors",
    "RefusedError": "remit.core.errors",
    "RemitError": "remit.core.errors",
    "TokenConstraints": "remit.contracts.browser.browser",
    "TokenRequest": "remit.authority.capability_token",
    "UsageError": "remit.core.errors",
    "Workspace": "remit.workspace.workspace",
    "acting": "remit.calls.acting",
    "governed": "remit.governed_functions.decorator",
    "initialise": "remit.workspace.create",
    "tool_of": "remit.governed_functions.tool_schema",
    "tools_of": "remit.governed_functions.tool_schema",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used: `remit --help` and the sandboxed process need none of them."""
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_DEFINED_IN[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
