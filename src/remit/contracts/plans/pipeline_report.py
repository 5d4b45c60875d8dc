"""The report on an action that runs a pipeline: its steps, how they ended, rows, and the last lines of its log."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from remit.contracts.base import Contract, Count, Identifier, Name, RelativePath, ShortText

MAX_STEPS_TOLD: Final = 200
MAX_LOG_LINES: Final = 200
_LATER: Final = frozenset({"server", "description"})


class ToldStep(Contract):
    """One step of a pipeline: a query file, a function, or a node of dbt."""

    name: ShortText
    state: Literal["done", "failed", "skipped"]
    rows: Count | None = Field(default=None, description="Rows that the step reported, or that Remit counted.")
    milliseconds: Count = 0
    words: ShortText = Field(default="", description="The result of the step, in a few words.")


class PipelineTold(Contract):
    """The report on one action that runs a pipeline. The pipeline ran on copies, or on a server in a transaction that
    was rolled back.
    """

    action_id: Identifier
    pipeline: Name
    description: ShortText = Field(default="", description="The description in the configuration.")
    kind: Literal["sql", "python", "dbt"]
    reversible: bool = Field(description="Whether everything that it changes can be rolled back.")
    steps: Annotated[tuple[ToldStep, ...], Field(strict=False, max_length=MAX_STEPS_TOLD)]
    left_out: Count = Field(default=0, description="The number of steps that a long list leaves out.")
    changes: Annotated[tuple[RelativePath, ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="Files that it creates or changes."
    )
    log: Annotated[tuple[ShortText, ...], Field(strict=False, max_length=MAX_LOG_LINES)] = Field(
        default=(), description="The last lines of its output, masked."
    )
    server: ShortText | None = Field(
        default=None,
        description="The database server on which it ran, in a transaction that was rolled back; null: it ran on"
        " copies.",
    )

    @model_serializer(mode="wrap")
    def _omit_missing(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit empty fields that were added later, so that reports signed before keep their digest."""
        tree: dict[str, Any] = serialise(self)
        return {name: value for name, value in tree.items() if value or name not in _LATER}
