"""Approval requests of calls and interrupted calls, as a person at a terminal sees them."""

from pathlib import Path

from click.testing import CliRunner, Result

from remit.cli.approvals.commands import approvals
from remit.cli.recover import recover
from remit.core.errors import Reason, RefusedError
from tests.governed_functions.customer_workspace import Place, declared
from tests.governed_functions.killed_program import Killed
from tests.support.child_process import Fault


def remit(place: Place, command: object, *words: str) -> Result:
    given = [*words, "-C", str(place.workspace.root)]
    environ = {"REMIT_STATE": place.workspace.environ["REMIT_STATE"], "REMIT_AGENT": None, "REMIT_TOKEN": None}
    return CliRunner().invoke(command, given, env=environ)  # type: ignore[arg-type]


def test_an_approval_request_of_a_call_is_listed_shown_and_approved(place: Place) -> None:
    setter = declared(place, "crm.ask", risk="HIGH", preview=lambda **_: "Gives \x1b[31macme 5% off")
    token = place.token("crm.ask")
    answer = setter.call(token=token, key="c1", customer="acme", percent=5)
    assert "call crm.ask" in remit(place, approvals, "list").output
    shown = remit(place, approvals, "show", answer.waiting.approval_id).output
    for line in (
        "call crm.ask",
        "customer: acme",
        "percent: 5",
        "high",
        "None. Its effect cannot be undone.",
        "23 h 59 min",
    ):
        assert line in shown, line
    assert "\x1b[31m" not in shown, "a preview colours the terminal"
    unseen = remit(place, approvals, "approve", answer.waiting.approval_id[:30])
    assert isinstance(unseen.exception, RefusedError)
    assert unseen.exception.reason is Reason.APPROVAL_PENDING
    assert "there is no terminal" in unseen.exception.what
    assert len(place.pending()) == 1
    [digest] = [each.request_digest for each in place.pending()]
    said = remit(place, approvals, "approve", answer.waiting.approval_id, "--digest", digest).output
    assert "the call crm.ask of agent-1 is made, once, when its agent asks again" in said
    assert setter.call(token=token, key="c1", customer="acme", percent=5).result.value["percent"] == 5


def test_an_interrupted_call_is_listed_until_its_program_recovers_it_or_a_person_closes_it(
    place: Place, tmp_path: Path
) -> None:
    one = Killed(place, tmp_path, "final", Fault("call.returned").point)
    listed = remit(place, recover)
    assert (listed.exit_code, "call" in listed.output, "unsettled" in listed.output) == (1, True, True)
    closed = remit(place, recover, "--abandon", one.key, "--json")
    assert closed.exit_code == 0
    assert '"call_id"' in closed.output
    assert '"effect": "unknown"' in closed.output
    assert "Nothing was left unfinished." in remit(place, recover).output
