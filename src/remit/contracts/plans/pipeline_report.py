"""What is told of an action that runs a pipeline: its steps, how they ended, rows, and the last lines of its log."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from remit.contracts.base import Contract, Count, Identifier, Name, RelativePath, ShortText

MAX_STEPS_TOLD: Final = 200
MAX_LOG_LINES: Final = 200
_LATER: Final = frozenset({"server", "description"})


class ToldStep(Contract):
    """A query file, a function, or a node of dbt."""

    name: ShortText
    state: Literal["done", "failed", "skipped"]
    rows: Count | None = Field(default=None, description="Rows that it says it handled, or that were counted.")
    milliseconds: Count = 0
    words: ShortText = Field(default="", description="What came of it, in a few words.")


class PipelineTold(Contract):
    """One action that runs a pipeline, as it was run on copies, or on a server and rolled back."""

    action_id: Identifier
    pipeline: Name
    description: ShortText = Field(default="", description="As the configuration describes it.")
    kind: Literal["sql", "python", "dbt"]
    reversible: bool = Field(description="Whether all that it changes can be taken back.")
    steps: Annotated[tuple[ToldStep, ...], Field(strict=False, max_length=MAX_STEPS_TOLD)]
    left_out: Count = Field(default=0, description="Steps that are not in the list, because it is long.")
    changes: Annotated[tuple[RelativePath, ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="Files that it makes or changes."
    )
    log: Annotated[tuple[ShortText, ...], Field(strict=False, max_length=MAX_LOG_LINES)] = Field(
        default=(), description="The last lines of what it said, masked."
    )
    server: ShortText | None = Field(
        default=None,
        description="The database server that it ran on, in a transaction that was rolled back; null: on copies.",
    )

    @model_serializer(mode="wrap")
    def _omit_missing(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Reports that were signed before these fields were there keep their digest."""
        tree: dict[str, Any] = serialise(self)
        return {name: value for name, value in tree.items() if value or name not in _LATER}
