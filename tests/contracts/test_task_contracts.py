"""The task door: inputs and outputs are closed by their capability, and a result is one thing or the other."""

from typing import Any

import pytest

from remit.contracts.tasks.result import CopyOutput, DeleteOutput, ExecutionResult, MoveOutput, NoEffectOutput
from remit.contracts.tasks.task import DeleteInputs, LeaseToken, NoInputs, TaskManifest, TransferInputs
from remit.core.errors import RefusedError
from tests.contracts.examples import BY_LABEL


def _document(label: str, **changes: Any) -> dict[str, Any]:
    return {**BY_LABEL[label].document, **changes}


@pytest.mark.parametrize(
    "label, shape",
    [("move", TransferInputs), ("copy", TransferInputs), ("delete", DeleteInputs), ("no-effect", NoInputs)],
)
def test_inputs_of_a_built_in_capability_become_its_own_model(label: str, shape: type) -> None:
    assert isinstance(TaskManifest.from_tree(_document(f"task-manifest/{label}")).inputs, shape)


@pytest.mark.parametrize("capability", ["FILE_MOVE", "FILE_COPY"])
def test_transfer_without_destination_is_refused_with_its_place(capability: str) -> None:
    document = _document("task-manifest/delete", capability_id=capability)
    with pytest.raises(RefusedError) as refusal:
        TaskManifest.from_tree(document)
    assert "$.inputs.destination_path" in refusal.value.where


def test_delete_with_a_destination_is_refused() -> None:
    with pytest.raises(RefusedError):
        TaskManifest.from_tree(_document("task-manifest/move", capability_id="FILE_DELETE"))


def test_no_effect_with_inputs_is_refused() -> None:
    with pytest.raises(RefusedError):
        TaskManifest.from_tree(_document("task-manifest/delete", capability_id="NO_EFFECT"))


def test_inputs_of_a_foreign_capability_stay_an_open_object_even_if_they_look_like_ours() -> None:
    manifest = TaskManifest.from_tree(_document("task-manifest/move", capability_id="MEDIA_RESIZE"))
    assert manifest.inputs == {"source_path": "/data/a.txt", "destination_path": "/data/b.txt"}


def test_irreversible_delete_parses_since_refusing_it_is_a_later_decision() -> None:
    document = _document("task-manifest/delete", constraints={"reversible": False})
    assert TaskManifest.from_tree(document).constraints.reversible is False


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 4097, "é" * 2049])
def test_path_that_no_kernel_could_open_is_refused(path: str) -> None:
    with pytest.raises(RefusedError):
        TaskManifest.from_tree(_document("task-manifest/delete", inputs={"source_path": path}))


@pytest.mark.parametrize("task_id", ["", "x" * 201, "a\nb", "a\u202eb", "\ud800"])
def test_id_that_is_empty_overlong_or_not_printable_is_refused(task_id: str) -> None:
    with pytest.raises(RefusedError):
        TaskManifest.from_tree(_document("task-manifest/move", task_id=task_id))


def test_time_in_any_other_form_than_utc_with_z_is_refused(subtests: pytest.Subtests) -> None:
    for when in [
        "2026-11-15T09:30:00",
        "2026-11-15T09:30:00+00:00",
        "2026-11-15T09:30:00+05:00Z",
        "2026-11-15T09:30:00,5Z",
        "2026-11-15 09:30:00Z",
        "2026-02-30T09:30:00Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T09:30:00.1234567Z",
        "２026-11-15T09:30:00Z",
    ]:
        with subtests.test(when), pytest.raises(RefusedError):
            LeaseToken.from_tree(_document("lease-token", expires_at=when))


@pytest.mark.parametrize("field, length", [("signature", 86), ("key_id", 43)])
def test_base64url_value_has_one_spelling_only(field: str, length: int) -> None:
    """The last character carries spare bits: were they ignored, a changed signature could still verify."""
    accepted = 0
    for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_":
        try:
            LeaseToken.from_tree(_document("lease-token", **{field: "A" * (length - 1) + last}))
        except RefusedError:
            continue
        accepted += 1
    assert accepted == {86: 4, 43: 16}[length]


@pytest.mark.req("EI-03")
@pytest.mark.parametrize(
    "changes",
    [
        {"status": "FAILURE"},
        {"output": None},
        {"error": {"error_code": "EXECUTION_FAILED", "message": "x"}},
        {"status": "FAILURE", "error": {"error_code": "EXECUTION_FAILED", "message": "x"}},
        {"output": None, "error": {"error_code": "EXECUTION_FAILED", "message": "x"}},
        {"status": "FAILURE", "output": None},
    ],
)
def test_result_with_the_wrong_one_of_output_and_error_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RefusedError) as refusal:
        ExecutionResult.from_tree(_document("execution-result/move", **changes))
    assert "must be given exactly if" in refusal.value.what


@pytest.mark.req("EI-03")
def test_success_has_an_output_and_failure_an_error_and_never_both() -> None:
    success = ExecutionResult.from_tree(_document("execution-result/move"))
    failure = ExecutionResult.from_tree(_document("execution-result/failure"))
    assert (success.output is None, success.error is None) == (False, True)
    assert (failure.output is None, failure.error is None) == (True, False)


@pytest.mark.req("EI-02")
@pytest.mark.parametrize("code", ["MALFORMED", "execution_failed", "", "INVALID_LEASE "])
def test_error_code_outside_the_five_is_refused(code: str) -> None:
    with pytest.raises(RefusedError):
        ExecutionResult.from_tree(_document("execution-result/failure", error={"error_code": code, "message": "x"}))


@pytest.mark.parametrize(
    "label, shape",
    [("move", MoveOutput), ("copy", CopyOutput), ("delete", DeleteOutput), ("no-effect", NoEffectOutput)],
)
def test_output_of_a_built_in_capability_becomes_its_own_model(label: str, shape: type) -> None:
    assert isinstance(ExecutionResult.from_tree(_document(f"execution-result/{label}")).output, shape)


@pytest.mark.parametrize("field", ["task_id", "capability_id"])
def test_output_about_another_task_is_refused(field: str) -> None:
    output = {**BY_LABEL["execution-result/move"].document["output"], field: "t-2"}
    with pytest.raises(RefusedError):
        ExecutionResult.from_tree(_document("execution-result/move", output=output))


def test_move_without_undo_metadata_is_refused() -> None:
    output = {**BY_LABEL["execution-result/move"].document["output"], "undo_metadata": {}}
    with pytest.raises(RefusedError) as refusal:
        ExecutionResult.from_tree(_document("execution-result/move", output=output))
    assert "$.output.undo_metadata.original_path" in refusal.value.where


@pytest.mark.parametrize("number", [2**53, -(2**53), 1e17, -1e20, 2**80])
def test_number_whose_canonical_form_reads_back_as_another_is_refused(number: float) -> None:
    document = _document("task-manifest/no-effect", capability_id="OTHER", inputs={"n": [number]})
    with pytest.raises(RefusedError):
        TaskManifest.from_tree(document)


@pytest.mark.parametrize("number", [2**53 - 1, 0.5, 1e21, 1e300, -1e-300])
def test_number_that_survives_the_round_trip_is_taken(number: float) -> None:
    document = _document("task-manifest/no-effect", capability_id="OTHER", inputs={"n": [number]})
    manifest = TaskManifest.from_tree(document)
    assert TaskManifest.parse(manifest.canonical()).canonical() == manifest.canonical()
