"""A person gives an approval for one request before it expires. It is used once, and the ledger has every step."""

import re
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from remit.approvals.service import MAX_PENDING_OF_ONE
from remit.browser.policy import browser_error, browser_reason
from remit.contracts.browser.browser import HTTPPreview
from remit.contracts.calls.call import CallPreview
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.identity.person import Person, person_at_terminal
from remit.ledger.writer import Batch
from remit.masking import mask_shown
from remit.store.process_identity import this_process
from remit.store.tokens import insert_revocation
from tests.approvals.conftest import ADA, PREVIEW, Desk, digest_of, question

pytestmark = pytest.mark.req("VX-09")
LATE = timedelta(seconds=600)
FORBIDDEN = [
    "UPDATE approvals SET state = 'APPROVED', decided_by = 'me', entry_seq = entry_seq + 1",
    "UPDATE approvals SET state = 'USED', decided_by = 'me', entry_seq = entry_seq + 1",
    "UPDATE approvals SET request_digest = 'sha256:c'",
    "UPDATE approvals SET preview = '{}'",
    "UPDATE approvals SET expires_at = '2099-01-01T00:00:00Z'",
    "UPDATE approvals SET screenshot = 'x'",
    "UPDATE approvals SET state = 'PENDING'",
    "DELETE FROM approvals",
]


def refused(work: Any, *given: Any, **named: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        work(*given, **named)
    return caught.value


@pytest.mark.req("VX-10")
def test_approval_030_a_request_is_asked_approved_and_used_and_the_ledger_has_every_step(desk: Desk) -> None:
    asked = desk.ask()
    assert (asked.state, asked.agent_id, asked.decided_by) == ("PENDING", "agent-1", None)
    assert [one.approval_id for one in desk.approvals.listed("PENDING")] == [asked.approval_id]
    approved = desk.approvals.decide(asked.approval_id[:30], approved=True, who=Person("os:ada", "Ada L."), reason="ok")
    assert (approved.state, approved.decided_by, approved.reason) == ("APPROVED", "os:ada (Ada L.)", "ok")
    assert desk.approvals.listed("PENDING") == []
    used = desk.use(asked.approval_id)
    assert (used.state, used.decided_by) == ("USED", "os:ada (Ada L.)")
    assert desk.kinds() == ["requested", "approved", "used"]
    assert desk.world.verify().holds


def test_a_request_expires_after_ten_minutes(desk: Desk) -> None:
    asked = desk.ask()
    assert desk.approvals.seconds_left(asked) == pytest.approx(600, abs=0.1)


@pytest.mark.parametrize(
    "changes,named",
    [
        ({"request_digest": digest_of("c")}, "another request"),
        ({"action_digest": digest_of("c")}, "another action"),
        ({"token_jti": "token-2"}, "another token"),
    ],
)
def test_approval_006_an_approval_is_only_for_what_it_was_asked_for(
    desk: Desk, changes: dict[str, str], named: str
) -> None:
    asked = desk.ask()
    desk.yes(asked.approval_id)
    problem = refused(desk.use, asked.approval_id, **changes)
    assert named in problem.what
    assert browser_error(problem).code == "APPROVAL_DENIED"
    assert desk.state(asked.approval_id) == "APPROVED"
    assert desk.use(asked.approval_id).state == "USED"


def test_approval_007_an_approval_is_used_once(desk: Desk) -> None:
    asked = desk.ask()
    desk.yes(asked.approval_id)
    desk.use(asked.approval_id)
    assert "used before" in refused(desk.use, asked.approval_id).what
    assert desk.kinds().count("used") == 1


def test_of_many_concurrent_uses_of_one_approval_one_succeeds(desk: Desk) -> None:
    asked = desk.ask()
    desk.yes(asked.approval_id)
    barrier, used = threading.Barrier(8), []

    def spend() -> None:
        barrier.wait()
        try:
            used.append(desk.use(asked.approval_id).state)
        except RefusedError:
            return

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert used == ["USED"]


def test_of_two_concurrent_decisions_one_is_recorded_and_the_other_is_refused(desk: Desk) -> None:
    asked = desk.ask()
    barrier, said, problems = threading.Barrier(2), [], []

    def decide(name: str, approved: bool) -> None:  # noqa: FBT001
        barrier.wait()
        try:
            said.append(desk.approvals.decide(asked.approval_id, approved=approved, who=Person(f"os:{name}")))
        except RefusedError as problem:
            problems.append(problem)

    threads = [threading.Thread(target=decide, args=pair) for pair in (("ada", True), ("bob", False))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [counted], [problem] = said, problems
    assert problem.reason is Reason.TRANSITION_INVALID
    assert str(counted.decided_by) in problem.what
    assert desk.approvals.show(asked.approval_id) == counted
    assert len(desk.kinds()) == 2


def test_a_denial_is_final_and_names_the_person(desk: Desk) -> None:
    asked = desk.ask()
    desk.approvals.decide(asked.approval_id, approved=False, who=ADA, reason="too dear")
    assert "os:ada" in refused(desk.yes, asked.approval_id).what
    problem = refused(desk.use, asked.approval_id)
    assert browser_error(problem).code == "APPROVAL_DENIED"
    assert browser_reason(problem) == "User denied"
    assert "too dear" in problem.next_step


def test_a_pending_or_unknown_request_cannot_be_used(desk: Desk) -> None:
    assert "no person has approved or denied it" in refused(desk.use, desk.ask().approval_id).what
    assert "no such approval" in refused(desk.use, "0198aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee").what


def test_a_decision_that_comes_too_late_is_refused_and_the_request_expires(desk: Desk) -> None:
    asked = desk.ask()
    desk.world.clock.now += LATE
    problem = refused(desk.yes, asked.approval_id)
    assert browser_error(problem).code == "APPROVAL_TIMEOUT"
    assert desk.state(asked.approval_id) == "EXPIRED"
    assert desk.kinds() == ["requested", "expired"]
    assert browser_error(refused(desk.use, asked.approval_id)).code == "APPROVAL_TIMEOUT"


def test_an_approval_that_was_not_used_in_time_expires(desk: Desk) -> None:
    asked = desk.ask()
    desk.yes(asked.approval_id)
    desk.world.clock.now += LATE
    assert browser_error(refused(desk.use, asked.approval_id)).code == "APPROVAL_TIMEOUT"
    assert [one.state for one in desk.approvals.expire_due()] == ["EXPIRED"]
    assert desk.approvals.expire_due() == []


def test_a_clock_that_is_set_back_gives_no_more_time(desk: Desk) -> None:
    asked = desk.ask()
    desk.yes(asked.approval_id)
    desk.world.clock.now += LATE
    desk.world.append("default", 1)
    desk.world.clock.now -= LATE
    assert browser_error(refused(desk.use, asked.approval_id)).code == "APPROVAL_TIMEOUT"
    assert desk.approvals.show(asked.approval_id).state == "EXPIRED"


@pytest.mark.parametrize("variable", ["REMIT_AGENT", "REMIT_TOKEN"])
def test_approval_009_a_caller_that_acts_as_an_agent_is_not_a_person(variable: str) -> None:
    assert person_at_terminal({}).id.startswith("os:")
    problem = refused(person_at_terminal, {variable: "agent-1"})
    assert problem.reason is Reason.PERMISSION_DENIED
    assert variable in problem.what


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 101, "\x1b[2J"])
def test_a_name_that_could_mislead_on_a_terminal_is_refused(name: str) -> None:
    assert refused(person_at_terminal, {}, name).reason is Reason.MALFORMED
    assert person_at_terminal({}, "Ada").signature.endswith(" (Ada)")


@pytest.mark.parametrize("who", [Person("agent-1"), Person("os:root", "agent-1"), Person("os:a", "b")])
def test_the_agent_that_asks_cannot_decide_under_any_name(desk: Desk, who: Person) -> None:
    asked = desk.ask(agent_id=who.signature) if who.name == "b" else desk.ask()
    problem = refused(desk.approvals.decide, asked.approval_id, approved=True, who=who)
    assert problem.reason is Reason.PERMISSION_DENIED
    assert desk.state(asked.approval_id) == "PENDING"


def test_a_request_whose_process_is_gone_is_void(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("remit.approvals.service.this_process", _gone_process)
        orphan, other = desk.ask(1), desk.ask(2)
        desk.ask(3)
    alive = desk.ask(4)
    problem = refused(desk.yes, orphan.approval_id)
    assert "gone" in problem.what
    assert desk.state(orphan.approval_id) == "VOID"
    assert len(desk.approvals.void_orphans()) == 2
    assert desk.state(other.approval_id) == "VOID"
    assert desk.yes(alive.approval_id).state == "APPROVED"
    assert desk.kinds().count("voided") == 3


def _gone_process() -> str:
    """Describe a process like this one, with a number that no process has."""
    boot, namespace, _, started = this_process().split(":")
    return f"{boot}:{namespace}:4194305:{started}"


def test_the_host_can_void_a_request_that_it_holds_and_nothing_else_changes(desk: Desk) -> None:
    first, second = desk.ask(1), desk.ask(2)
    desk.yes(first.approval_id)
    closed = desk.approvals.void([first.approval_id], "the page is gone")
    assert [(one.approval_id, one.state) for one in closed] == [(first.approval_id, "VOID")]
    assert "the page is gone" in refused(desk.use, first.approval_id).what
    assert desk.state(second.approval_id) == "PENDING"
    assert desk.approvals.void([first.approval_id], "again") == []


@pytest.mark.req("VX-02")
@pytest.mark.parametrize("when", ["asked", "decided", "used"])
def test_approval_012_an_approval_of_a_revoked_token_cannot_be_used(desk: Desk, when: str) -> None:
    asked = desk.ask()
    if when == "used":
        desk.yes(asked.approval_id)

    def revoke(batch: Batch) -> None:
        insert_revocation(batch.store, "default", "token-1", "2026-01-01T00:00:00Z", "os:ada", None, 1)

    desk.world.ledger.transact(revoke)
    if when == "asked":
        assert refused(desk.ask, 2).reason is Reason.REVOKED
    elif when == "decided":
        assert "revoked" in refused(desk.yes, asked.approval_id).what
        assert desk.state(asked.approval_id) == "VOID"
    else:
        assert refused(desk.use, asked.approval_id).reason is Reason.REVOKED


def test_approval_025_an_agent_can_have_only_a_limited_number_of_pending_requests(desk: Desk) -> None:
    for number in range(MAX_PENDING_OF_ONE):
        desk.ask(number)
    problem = refused(desk.ask, 10_000)
    assert problem.reason is Reason.RESOURCE_EXHAUSTED
    assert desk.ask(1, agent_id="agent-2").state == "PENDING"
    desk.world.clock.now += LATE
    assert desk.ask(2).state == "PENDING"


def test_secrets_in_a_preview_are_masked_again_before_they_are_stored(desk: Desk) -> None:
    leaky = {**PREVIEW, "estimatedEffect": "Pays with 4111 1111 1111 1111, tells ada@example.com"}
    asked = desk.ask(preview=HTTPPreview.from_tree(leaky))
    kept = repr(desk.world.attacker.run("SELECT preview FROM approvals"))
    kept += repr(desk.world.attacker.run("SELECT payload FROM ledger_entries"))
    assert "4111" not in kept + str(asked.tree())
    assert "ada@" not in kept + str(asked.tree())
    assert "****-****-****-1111" in kept


def test_a_quote_in_one_argument_does_not_hide_the_other_arguments(desk: Desk) -> None:
    """Each argument is masked by itself. Masking them as one text would hide the text after the quote."""
    arguments = {"note": mask_shown('x password="abc\npay everybody'), "to": '{"a": "password=\\"", "b": "all"}'}
    told = {"function": "pay", "arguments": arguments, "estimatedEffect": "Pays.", "risk": "HIGH", "wayBack": "None."}
    asked = desk.ask(preview=CallPreview.from_tree({**told, "reversible": False}))
    assert asked.preview.tree()["arguments"] == arguments
    assert "abc" not in str(arguments)


@pytest.mark.parametrize("given", ["", "0", "ffff", "%", "_" * 36, "0198aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee"])
def test_approval_013_a_guessed_id_finds_no_request(desk: Desk, given: str) -> None:
    desk.ask()
    assert refused(desk.yes, given).reason is Reason.STATE_MISSING


def test_a_beginning_that_fits_two_requests_is_refused_and_both_are_named(desk: Desk) -> None:
    first, second = desk.ask(1).approval_id, desk.ask(2).approval_id
    shared = alike(first, second)
    for work in (desk.yes, desk.no):
        problem = refused(work, shared)
        assert "more than one" in problem.what
        assert f"{first} (pending)" in problem.next_step
        assert f"{second} (pending)" in problem.next_step
    assert {desk.state(first), desk.state(second)} == {"PENDING"}


def test_an_approval_by_a_beginning_never_goes_to_a_request_that_replaced_another(desk: Desk) -> None:
    """The host gave up the request that the person read, and the agent made another in the same second."""
    read, exchanged = desk.ask(1).approval_id, desk.ask(2).approval_id
    shared = alike(read, exchanged)
    desk.approvals.void([read], "the page is gone")
    problem = refused(desk.yes, shared)
    assert f"{exchanged} (pending), {read} (void)" in problem.next_step
    assert desk.state(exchanged) == "PENDING"
    assert desk.no(shared).approval_id == exchanged


def test_a_request_of_a_revoked_token_says_who_revoked_it(desk: Desk) -> None:
    asked = desk.ask()
    desk.world.ledger.transact(lambda batch: desk.approvals.void_of_token(batch, "token-1", "os:bob"))
    assert "the token was revoked by os:bob" in refused(desk.yes, asked.approval_id).what


def alike(first: str, second: str) -> str:
    """Return the common beginning of two ids. Ids begin with the time."""
    return next(first[:end] for end in range(36, 3, -1) if second.startswith(first[:end]))


ELSE = "This request was not sent. To see the rest of its action: remit ledger show --correlation action-1"
CLOSED = {
    "approved": ("approved by os:ada at 20", "To stop requests that are not sent yet: remit token revoke token-1"),
    "used": ("approved by os:ada at 20", "remit ledger show --correlation action-1"),
    "denied": ("denied by os:ada at 20", ELSE),
    "expired": ("expired without a decision at 20", ELSE),
    "unused": ("approved by os:ada at 20", ELSE),
    "void": ("void since 20", ELSE),
}


@pytest.mark.parametrize("how", CLOSED)
def test_a_closed_request_says_how_when_by_whom_and_what_to_do(desk: Desk, how: str) -> None:
    name = desk.ask().approval_id
    if how in {"approved", "used", "unused"}:
        desk.yes(name)
    if how == "used":
        desk.use(name)
    if how == "denied":
        desk.no(name)
    if how == "void":
        desk.approvals.void([name], "the page is gone")
    if how in {"expired", "unused"}:
        desk.world.clock.now += LATE
        desk.approvals.expire_due()
    said, advice = CLOSED[how]
    problem = refused(desk.no, name)
    assert problem.reason is Reason.TRANSITION_INVALID
    assert said in problem.what
    assert advice in problem.next_step
    assert ("the page is gone" in problem.what) is (how == "void")


@pytest.mark.parametrize("state", ["PENDING", "APPROVED", "DENIED"])
def test_the_database_refuses_every_change_that_has_no_ledger_entry(desk: Desk, state: str) -> None:
    asked = desk.ask()
    if state != "PENDING":
        desk.approvals.decide(asked.approval_id, approved=state == "APPROVED", who=ADA)
    before = desk.world.attacker.run("SELECT * FROM approvals")
    for statement in FORBIDDEN:
        with pytest.raises(Exception, match="append-only"):
            desk.world.attacker.run(statement)
        assert desk.world.attacker.run("SELECT * FROM approvals") == before


def test_an_approved_request_cannot_be_inserted(desk: Desk) -> None:
    asked = desk.ask()
    columns = "tenant_id, agent_id, token_jti, action_id, action_digest, request_digest, preview, host, created_at"
    with pytest.raises(Exception, match="append-only"):
        desk.world.attacker.run(
            f"INSERT INTO approvals (approval_id, {columns}, expires_at, requested_seq, state, decided_by, entry_seq)"
            f" SELECT 'planted', {columns}, expires_at, requested_seq, 'APPROVED', 'me', entry_seq FROM approvals"
        )
    assert [one.approval_id for one in desk.approvals.listed()] == [asked.approval_id]


@pytest.mark.parametrize("forged", ["state", "request", "preview", "time", "entry"])
def test_rows_forged_past_the_guards_make_no_approval(desk: Desk, forged: str) -> None:
    """Only a signed entry proves an approval. The attacker owns the tables, and has no key."""
    asked = desk.ask()
    other = desk.ask(2, request_digest=digest_of("e"))
    if forged != "state":
        desk.yes(asked.approval_id)
    desk.yes(other.approval_id)
    row = f"WHERE approval_id = '{asked.approval_id}'"
    approved = "SELECT entry_seq FROM approvals WHERE action_id = 'action-2'"
    statement = {
        "state": f"UPDATE approvals SET state = 'APPROVED', decided_by = 'me', entry_seq = ({approved}) {row}",
        "request": f"UPDATE approvals SET request_digest = '{digest_of('d')}' {row}",
        "preview": f"UPDATE approvals SET preview = '{{}}' {row}",
        "time": f"UPDATE approvals SET expires_at = '2099-01-01T00:00:00.000000Z' {row}",
        "entry": f"UPDATE approvals SET entry_seq = requested_seq {row}",
    }[forged]
    desk.world.attacker.tamper(statement)
    digest = digest_of("d") if forged == "request" else digest_of("b")
    with pytest.raises(EnvironmentFailureError) as caught:
        desk.use(asked.approval_id, request_digest=digest)
    assert caught.value.reason is Reason.EVIDENCE_INVALID
    assert desk.use(other.approval_id, request_digest=digest_of("e")).state == "USED"


@pytest.mark.parametrize("ended", ["used", "voided"])
def test_a_used_or_void_approval_cannot_be_restored_by_its_row(desk: Desk, ended: str) -> None:
    """The ledger has the later step, so setting the state back in the row is not enough."""
    asked = desk.ask()
    desk.yes(asked.approval_id)
    before = "SELECT state, decided_by, decided_at, reason, entry_seq FROM approvals WHERE approval_id = ?"
    [approved] = desk.world.attacker.run(before, (asked.approval_id,))
    if ended == "used":
        desk.use(asked.approval_id)
    else:
        desk.approvals.void([asked.approval_id], "the page is gone")
    columns = "state = ?, decided_by = ?, decided_at = ?, reason = ?, entry_seq = ?"
    desk.world.attacker.tamper((f"UPDATE approvals SET {columns}", tuple(approved)))
    assert desk.state(asked.approval_id) == "APPROVED"
    with pytest.raises(EnvironmentFailureError) as caught:
        desk.use(asked.approval_id)
    assert caught.value.reason is Reason.EVIDENCE_INVALID
    assert desk.kinds()[-1] == ended


def test_a_request_whose_preview_was_exchanged_cannot_be_approved(desk: Desk) -> None:
    asked = desk.ask()
    harmless = question().preview.model_copy(update={"estimated_effect": "Reads a page"}).canonical().decode()
    desk.world.attacker.tamper(("UPDATE approvals SET preview = ?", (harmless,)))
    with pytest.raises(EnvironmentFailureError) as caught:
        desk.yes(asked.approval_id)
    assert caught.value.reason is Reason.EVIDENCE_INVALID
    assert desk.state(asked.approval_id) == "PENDING"


def test_only_code_that_authenticates_creates_a_person() -> None:
    source = Path(remit.__file__).parent
    makers = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"\bPerson\(", path.read_text("utf-8"))
    }
    # At a terminal, by a login link, by a provider's signed token.
    assert makers == {"identity/person.py", "identity/people.py", "web/login/id_token.py"}


def test_a_request_expires_with_its_token(desk: Desk) -> None:
    asked = desk.ask(not_after=desk.world.clock() + timedelta(seconds=30))
    assert desk.approvals.seconds_left(asked) == pytest.approx(30, abs=0.1)
    desk.world.clock.now += timedelta(seconds=31)
    problem = refused(desk.approvals.decide, asked.approval_id, approved=True, who=ADA)
    assert problem.reason is Reason.APPROVAL_TIMEOUT


def test_a_decided_request_is_not_decided_again_whatever_its_row_says(desk: Desk) -> None:
    """The forged row says that it is pending. The ledger says that it was denied or approved."""
    denied, used = desk.ask(1).approval_id, desk.ask(2).approval_id
    desk.no(denied)
    desk.yes(used)
    for place in ("entry_seq", "requested_seq", "99999999"):
        desk.world.attacker.tamper(
            "UPDATE approvals SET state = 'PENDING', decided_by = NULL, decided_at = NULL, reason = NULL,"
            f" entry_seq = {place}"
        )
        for name in (denied, used):
            for answer in (desk.yes, desk.no):
                with pytest.raises(RemitError) as refused:
                    answer(name)
                assert refused.value.reason is Reason.EVIDENCE_INVALID, (place, name)
