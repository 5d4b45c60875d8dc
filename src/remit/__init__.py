"""Remit carries out what AI agents ask for, within their remit: signed authority, approval, sandbox, undo, record.

Every request takes the same steps, in `execution/engine.py`: parse, verify authority, decide, preview, consent,
checkpoint, intent, effect, verify, outcome, report. What a step means for one kind of request is said by its operation:
`plans/operation.py` for a plan; `tasks`, `browser`, `calls` and `goals` have their own.

Read on in `execution/engine.py`, then `plans/operation.py`, then `plans/apply/executor.py`. All packages, and which may
import which, are in docs/architecture.md; import-linter checks it (pyproject.toml).

Where things go:

a CLI command              a module in `cli`, its row in `COMMANDS` (`cli/__init__.py`), and whom it is for
                           (`cli/common/permissions.py`)
an HTTP route, an MCP tool `web/api`, `mcp_server/tools`: thin; both call `services`
a model of a document      `contracts`
an edit or a file action   `contracts/plans`, `effects/edits`, `effects/plans`: see `plans/apply/executor.py`
a policy check of a plan   `plans/policy/plan.py`
a field of a report        `contracts/plans/report.py` and `plans/reports`: see `plans/operation.py`
a fault point              `FAULT_POINTS` in `core/faultpoints.py`: see `execution/engine.py`
a ledger entry             a `NewEntry` where it happens; `ledger` writes and verifies
"""

from typing import TYPE_CHECKING, Any

from remit.version import __version__

if TYPE_CHECKING:
    from remit.workspace.workspace import Workspace

__all__ = ["Workspace", "__version__"]


def __getattr__(name: str) -> Any:
    """`remit.Workspace` without paying for it at `remit --help`."""
    if name == "Workspace":
        from remit.workspace.workspace import Workspace  # noqa: PLC0415 - see above

        return Workspace
    raise AttributeError(f"module 'remit' has no attribute {name!r}")
