"""The declarations of the effects in `acting`: the host's side."""

from typing import Any

from pydantic import Field

from remit.contracts.base import AbsolutePath, Contract, Identifier, JsonObject
from remit.effects.registry import Capability, PathUse
from remit.workspace.workspace import Workspace


class MarkInputs(Contract):
    destination_path: AbsolutePath


class MarkOutput(Contract):
    task_id: Identifier
    capability_id: Identifier
    result_summary: JsonObject
    undo_metadata: dict[str, Any] = Field(max_length=0)


def register(workspace: Workspace, *names: str) -> None:
    """Under its own name as the capability's id."""
    for name in names:
        workspace.registry.register(
            Capability(
                name,
                f"test.{name.lower()}",
                f"tests.tasks.declared_effects:{name}",
                MarkInputs,
                MarkOutput,
                paths={"destination_path": PathUse.MAKE},
            )
        )
