"""FILE_HASH, the declaration: all that the host has to know of it."""

from typing import Annotated, Literal

from pydantic import Field

from remit.executors import AbsolutePath, Capability, Contract, Identifier, Nothing, PathUse


class HashInputs(Contract):
    """Which file."""

    source_path: AbsolutePath


class HashSummary(Contract):
    source: AbsolutePath
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class HashOutput(Contract):
    """What came out."""

    task_id: Identifier
    capability_id: Literal["FILE_HASH"]
    result_summary: HashSummary
    undo_metadata: Nothing


FILE_HASH = Capability(
    capability_id="FILE_HASH",
    executor_id="example.hash",
    effect="tests.executors.hash_effect:HASH",
    inputs=HashInputs,
    output=HashOutput,
    paths={"source_path": PathUse.READ},
)
