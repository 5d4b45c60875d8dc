"""Opening and creating a workspace, and the container of its services."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.workspace.workspace import Workspace

__all__ = ["Workspace"]


def __getattr__(name: str) -> Any:
    """Load `remit.workspace.Workspace` only when it is used, because importers of other modules here do not need it."""
    if name == "Workspace":
        from remit.workspace.workspace import Workspace  # noqa: PLC0415 - see above

        return Workspace
    raise AttributeError(f"module 'remit.workspace' has no attribute {name!r}")
