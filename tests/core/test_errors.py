"""An error can be copied with another text or place, whatever its class."""

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
from remit.execution.engine import VerificationFailedError
from remit.sandbox.orders import Usage
from remit.sandbox.results import CancelledError, InterruptedTaskError

USED = Usage(seconds=1.0, memory_bytes=2, read_bytes=3, write_bytes=4)


@pytest.mark.parametrize(
    "problem, kind",
    [
        (RefusedError(Reason.SQL_REFUSED, "no", where="here", next_step="Go."), RefusedError),
        (UsageError(Reason.MISUSE, "no", where="here", next_step="Go."), UsageError),
        (VerificationFailedError(Reason.HASH_MISMATCH, "no", where="here", next_step="Go."), EnvironmentFailureError),
        (
            InterruptedTaskError(Reason.TIMED_OUT, "no", where="here", next_step="Go.", notes=(), usage=USED),
            EnvironmentFailureError,
        ),
        (
            CancelledError(Reason.CANCELLED, "no", where="here", next_step="Go.", notes=(), usage=USED),
            EnvironmentFailureError,
        ),
    ],
)
def test_every_error_can_be_copied_with_another_text(problem: RemitError, kind: type[RemitError]) -> None:
    placed, reworded = problem.with_changes(where="there"), problem.with_changes(what="not so")
    assert type(placed) is type(reworded) is kind
    assert placed.as_json() == {**problem.as_json(), "where": "there"}
    assert reworded.as_json() == {**problem.as_json(), "what": "not so"}
