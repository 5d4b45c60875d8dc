"""Remit: hands for AI agents that stay within their remit.

Every request takes one road (`remit.execution.engine`), whatever its door: parse, verify authority, decide, preview,
consent, checkpoint, intent, effect, verify, outcome, report. Each folder beside this file is one step of it.
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
