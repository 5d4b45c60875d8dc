"""The suite that executors are held to passes for ours and for a foreign one, and finds what is wrong with bad ones."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.base import AbsolutePath, Contract, Identifier
from remit.contracts.tasks.result import Nothing
from remit.effects.registry import Capability, PathUse
from remit.effects.tasks.capabilities import CAPABILITIES
from remit.testing.executor_contract import check_capability
from tests.executors.hash_capability import FILE_HASH

FILE_TASKS = {capability.capability_id: capability for capability in CAPABILITIES}


def one_file(folder: Path) -> dict[str, Any]:
    (folder / "file").write_bytes(os.urandom(1000))
    return {"source_path": str(folder / "file")}


def from_and_to(folder: Path) -> dict[str, Any]:
    return {**one_file(folder), "destination_path": str(folder / "new")}


@pytest.mark.req("EI-16")
def test_an_executor_that_remit_does_not_ship_passes_once_it_is_registered(tmp_path: Path) -> None:
    assert check_capability(FILE_HASH, one_file, tmp_path) == []


@pytest.mark.req("EI-01", "FX-01")
@pytest.mark.parametrize(
    "capability_id, arrange", [("FILE_MOVE", from_and_to), ("FILE_COPY", from_and_to), ("FILE_DELETE", one_file)]
)
def test_the_file_executor_passes(capability_id: str, arrange: Any, tmp_path: Path) -> None:
    assert check_capability(FILE_TASKS[capability_id], arrange, tmp_path) == []


def bad(name: str, **changes: Any) -> Capability:
    return replace(FILE_HASH, effect=f"tests.executors.bad_effects:{name}", **changes)


class Loose(Contract):
    """Inputs that name no path at all."""

    nothing: str = ""


@pytest.mark.parametrize(
    "capability, complaint",
    [
        (replace(FILE_HASH, effect="tests.executors.no_such_module:X"), "cannot be loaded"),
        (bad("NO_SUCH_NAME"), "cannot be loaded"),
        (bad("HALF"), "has no settle"),
        (bad("TALKATIVE"), "offers more than run and settle: retry"),
        (replace(FILE_HASH, effect="tests.executors.heavy_effect:HEAVY"), "that an effect may not use: remit.store"),
        (replace(FILE_HASH, inputs=Loose), "declares paths that are not inputs: source_path"),
        (bad("FAILING"), "a plain task fails"),
        (bad("LYING"), "a plain task fails"),
        (bad("FAILING", paths={"source_path": PathUse.TAKE}), "a plain task fails"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.effect,
)
def test_a_bad_executor_is_found_out(capability: Capability, complaint: str, tmp_path: Path) -> None:
    problems = check_capability(capability, one_file, tmp_path)
    assert any(complaint in problem for problem in problems), problems


class Nowhere(Contract):
    """Where to make a file."""

    destination_path: AbsolutePath


class Made(Contract):
    """That it was made."""

    task_id: Identifier
    capability_id: Identifier
    result_summary: Nothing
    undo_metadata: Nothing


def test_an_executor_that_leaves_half_a_file_behind_is_found_out(tmp_path: Path) -> None:
    littering = bad("LITTERING", inputs=Nowhere, output=Made, paths={"destination_path": PathUse.MAKE})
    problems = check_capability(littering, lambda folder: {"destination_path": str(folder / "new")}, tmp_path)
    assert problems == [f"leaves changes behind after an interruption ({call})" for call in ("undo", "finish")]
