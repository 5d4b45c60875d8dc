"""What is said of an action whose process died, by what the ledger knows of its requests."""

import pytest

from remit.browser.policy import browser_error, browser_reason
from remit.browser.recovery import RequestFate, build_interrupted, read_state
from remit.cli.browse import exit_code
from remit.contracts.browser.browser import ActionResult
from remit.core.errors import Reason

PAY = "Sends 1 field at shop.test: POST /pay"


@pytest.mark.req("VX-12")
@pytest.mark.parametrize(
    "requests, state, sent, advice",
    [
        ([], "not sent", 0, "safe to ask for it again"),
        ([RequestFate(PAY, "NOT_SENT")], "not sent", 0, "safe to ask for it again"),
        ([RequestFate(PAY)], "unknown", 1, "Look at the site to see"),
        ([RequestFate(PAY, "ANSWERED", 200), RequestFate(PAY, "UNKNOWN")], "unknown", 2, "Look at the site to see"),
        ([RequestFate(PAY, "ANSWERED", 201)], "sent", 1, "does not send it again"),
        ([RequestFate(PAY, "SENT")], "sent", 1, "does not send it again"),
    ],
)
def test_an_interrupted_action_reports_whether_its_requests_were_sent_not_sent_or_of_unknown_fate(
    requests: list[RequestFate], state: str, sent: int, advice: str
) -> None:
    told = build_interrupted("act-1", requests)
    assert told.sent == sent
    assert advice in told.problem.next_step
    assert (told.problem.reason is Reason.FATE_UNKNOWN) == (state == "unknown")
    result = ActionResult(
        action_id="act-1",
        success=False,
        reason=browser_reason(told.problem),
        error=browser_error(told.problem),
        sent=told.sent,
    )
    assert read_state(result) == state
    assert exit_code(result, refused=False) == (2 if state == "not sent" else 1)
