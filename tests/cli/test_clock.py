"""A machine whose clock was ahead, as a person meets it: what is refused and why, and the way out."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.core.errors import RefusedError
from remit.workspace.workspace import Workspace
from tests.cli.conftest import CommandResult, Remit
from tests.cli.terminal import TypedAnswer, run_in_terminal
from tests.plans.project import plan_of, refused, replace

AHEAD = timedelta(days=366)
TASK = {"task_id": "t-1", "capability_id": "NO_EFFECT", "inputs": {}, "constraints": {"reversible": True}}
WISH = TokenRequest("bot", ("plan.propose",), TokenConstraints(), timedelta(hours=1))
BEHIND = "behind the ledger's newest entry"


@contextmanager
def opened(tmp_path: Path, offset: timedelta = timedelta(0)) -> Iterator[Workspace]:
    """The same workspace by its Python API, while the clock is off by so much."""
    environ = {"REMIT_STATE": str(tmp_path / "state")}
    with Workspace.open(tmp_path / "project", environ=environ, clock=lambda: datetime.now(UTC) + offset) as workspace:
        yield workspace


@pytest.fixture
def project(remit: Remit, tmp_path: Path) -> Path:
    assert remit("init").code == 0
    folder = tmp_path / "project"
    (folder / "notes.txt").write_text("one\ntwo\n")
    (folder / "task.json").write_text(json.dumps(TASK))
    return folder


def write_ahead(tmp_path: Path) -> str:
    """One entry while the clock is ahead: a token, issued then."""
    with opened(tmp_path, AHEAD) as workspace:
        return workspace.tokens.issue(WISH).text


def run_task(remit: Remit, project: Path, task_id: str) -> CommandResult:
    (project / "task.json").write_text(json.dumps({**TASK, "task_id": task_id}))
    leased = remit("task", "lease", "task.json", "-o", f"{task_id}.lease")
    if leased.code:
        return leased
    return remit("task", "run", "task.json", "--lease", f"{task_id}.lease")


def apply_plan(remit: Remit, project: Path, tmp_path: Path, old: str, new: str) -> CommandResult:
    with opened(tmp_path) as workspace:
        envelope = workspace.approve(plan_of(replace("a1", "notes.txt", old, new), plan_id=f"plan-{new}"))
    (project / "envelope.json").write_bytes(envelope.canonical())
    return remit("apply", "envelope.json")


def test_one_entry_from_the_future_stops_everything_until_a_person_accepts_the_clock(
    remit: Remit, project: Path, tmp_path: Path
) -> None:
    assert apply_plan(remit, project, tmp_path, "two", "three").code == 0
    write_ahead(tmp_path)

    for ran in (
        run_task(remit, project, "t-1"),
        apply_plan(remit, project, tmp_path, "three", "four"),
        remit("rollback", "last"),
    ):
        assert ran.code == 2, ran
        told = ran.out + ran.err
        assert BEHIND in told, told
        assert "365 days" in told, told
        assert "remit clock accept" in told, told
    assert (project / "notes.txt").read_text() == "one\nthree\n"

    assert remit("clock", "accept", "--yes", "--as", "Ada").code == 0
    assert run_task(remit, project, "t-2").code == 0
    assert remit("task", "run", "task.json", "--lease", "t-2.lease").code == 0
    assert apply_plan(remit, project, tmp_path, "three", "five").code == 0
    assert remit("rollback", "last").code == 0
    assert (project / "notes.txt").read_text() == "one\nthree\n"
    token = remit("token", "issue", "--sub", "bot", "--cap", "plan.propose", "--json").document["token"]
    with opened(tmp_path) as workspace:
        assert workspace.tokens.verify(token).agent_id == "bot"
    assert remit("ledger", "verify").code == 0
    assert remit("ledger", "show", "--json").code == 0


def test_the_clock_is_shown_beside_the_ledger_and_doctor_names_the_way_out(
    remit: Remit, project: Path, tmp_path: Path
) -> None:
    calm = remit("clock", "show", "--json")
    assert calm.code == 0
    assert calm.document["noticed"] == []
    write_ahead(tmp_path)
    with opened(tmp_path) as workspace:
        workspace.issue_lease(json.dumps(TASK).encode())
    shown = remit("clock", "show", "--json")
    assert shown.code == 1
    (chain,) = shown.document["chains"]
    assert (chain["tenant_id"], chain["can_be_accepted"]) == ("default", True)
    assert AHEAD.total_seconds() - 600 < chain["behind_seconds"] <= AHEAD.total_seconds()
    (noticed,) = shown.document["noticed"]
    assert (noticed["kind"], noticed["found"], noticed["actor"]) == ("clock.jumped", "behind_ledger", "remit")
    assert "365 days" in remit("clock", "show").out

    checks = {check["name"]: check for check in remit("doctor", "--json").document["workspace"]}
    assert checks["clock and ledger"]["status"] == "fail"
    assert BEHIND in checks["clock and ledger"]["found"]
    assert "remit clock accept" in checks["clock and ledger"]["next_step"]

    accepted = remit("clock", "accept", "--yes", "--json")
    assert accepted.code == 0
    assert [one["tenant_id"] for one in accepted.document["accepted"]] == ["default"]
    checks = {check["name"]: check for check in remit("doctor", "--json").document["workspace"]}
    assert checks["clock and ledger"]["status"] == "ok"
    assert remit("clock", "show").code == 0
    assert "accepted" in remit("ledger", "show").out


@pytest.mark.parametrize("variable", ["REMIT_AGENT", "REMIT_TOKEN"])
def test_an_agent_cannot_accept_the_clock(remit: Remit, project: Path, tmp_path: Path, variable: str) -> None:
    token = write_ahead(tmp_path)
    ran = remit("clock", "accept", "--yes", **{variable: token})
    assert (ran.code, "this is for a person" in ran.err) == (2, True)
    assert remit("clock", "show").code == 1


def test_without_a_terminal_the_clock_is_accepted_only_with_an_explicit_option(
    remit: Remit, project: Path, tmp_path: Path
) -> None:
    write_ahead(tmp_path)
    ran = remit("clock", "accept")
    assert ran.code == 3
    assert "remit clock accept --yes" in ran.err
    assert remit("clock", "show").code == 1


@pytest.mark.parametrize("answer, code", [(b"y\n", 0), (b"n\n", 2), (b"\n", 2), (b"\x03", 2)], ids=repr)
def test_at_a_terminal_the_person_sees_the_times_and_is_asked(
    remit: Remit, project: Path, tmp_path: Path, answer: bytes, code: int
) -> None:
    with opened(tmp_path) as workspace:
        kept = workspace.tokens.issue(WISH)
    write_ahead(tmp_path)
    seen = run_in_terminal(project, "clock", "accept", answers=(TypedAnswer("[y/N]", answer.decode()),))
    shown = seen.shown
    assert (seen.code, seen.answered) == (code, True), shown
    assert "Is the clock right?" in shown
    assert "365 days" in shown
    assert kept.claims.jti in shown, "a token that this makes valid again is named"
    assert remit("clock", "show").code == (0 if code == 0 else 1)


def test_with_nothing_to_accept_nothing_is_written(remit: Remit, project: Path) -> None:
    before = remit("ledger", "show", "--json").out
    ran = remit("clock", "accept", "--yes")
    assert (ran.code, "nothing to accept" in ran.out) == (0, True)
    assert remit("ledger", "show", "--json").out == before


def test_authority_from_the_future_is_not_valid_yet_and_what_is_recorded_stays(
    remit: Remit, project: Path, tmp_path: Path
) -> None:
    with opened(tmp_path) as workspace:
        revoked = workspace.tokens.issue(WISH)
        workspace.tokens.revoke(revoked.claims.jti, actor="os:ada")
        short = workspace.issue_lease(json.dumps({**TASK, "task_id": "t-expired"}).encode())
    with opened(tmp_path, AHEAD) as workspace:
        early = workspace.issue_lease(json.dumps({**TASK, "task_id": "t-early"}).encode())
        result = workspace.execute_task(json.dumps({**TASK, "task_id": "t-expired"}).encode(), short.canonical())
        assert result.error is not None
        assert result.error.error_code == "LEASE_EXPIRED", "recorded while the clock was ahead"
    future = write_ahead(tmp_path)
    assert remit("clock", "accept", "--yes").code == 0

    (project / "expired.lease").write_bytes(short.canonical())
    (project / "early.lease").write_bytes(early.canonical())
    (project / "task.json").write_text(json.dumps({**TASK, "task_id": "t-expired"}))
    stays = remit("task", "run", "task.json", "--lease", "expired.lease")
    assert (stays.code, "recorded as expired" in stays.out + stays.err) == (2, True), stays
    (project / "task.json").write_text(json.dumps({**TASK, "task_id": "t-early"}))
    refused = remit("task", "run", "task.json", "--lease", "early.lease")
    assert (refused.code, "in the future" in refused.out + refused.err) == (2, True), refused
    assert run_task(remit, project, "t-expired").code == 0, "with a new lease the same task may run"
    with opened(tmp_path) as workspace:
        for token, word in ((revoked.text, "was revoked"), (future, "in the future")):
            with pytest.raises(RefusedError, match=word):
                workspace.tokens.verify(token)
    assert remit("ledger", "verify").code == 0


def test_nothing_is_signed_that_would_be_expired_at_once(remit: Remit, project: Path, tmp_path: Path) -> None:
    (project / "plan.json").write_bytes(plan_of(replace("a1", "notes.txt", "two", "three"), plan_id="p"))
    digest = remit("preview", "plan.json", "--json").document["digest"]
    write_ahead(tmp_path)
    with opened(tmp_path) as workspace:
        before = workspace.tokens.listed()
    for given in (
        ("approve", "plan.json", "--digest", digest, "-o", "envelope.json"),
        ("run", "plan.json", "--yes"),
        ("task", "lease", "task.json", "-o", "t.lease"),
        ("token", "issue", "--sub", "bot", "--cap", "plan.propose", "-o", "bot.token"),
    ):
        ran = remit(*given)
        assert (ran.code, BEHIND in ran.err, "remit clock accept" in ran.err) == (2, True, True), ran
        assert "nothing was signed" in ran.err
    with opened(tmp_path) as workspace:
        assert workspace.tokens.listed() == before
    assert (project / "notes.txt").read_text() == "one\ntwo\n"


def test_tokens_from_the_time_ahead_are_named_with_what_to_do(remit: Remit, project: Path, tmp_path: Path) -> None:
    future = write_ahead(tmp_path)
    ran = remit("clock", "accept", "--yes")
    assert (ran.code, "1 token" in ran.out, "remit token revoke" in ran.out) == (0, True, True), ran
    used = remit("approvals", "list", REMIT_TOKEN=future)
    with opened(tmp_path) as workspace:
        (row,) = workspace.tokens.listed()
        with pytest.raises(RefusedError) as refused:
            workspace.tokens.verify(future)
    assert f"remit token revoke {row.jti}" in refused.value.next_step
    assert "issue a new token" in refused.value.next_step
    assert row.jti in ran.out
    assert used.code == 2
    assert "remit browse" not in remit("clock", "accept", "--yes", REMIT_AGENT="x").err
    assert remit("token", "revoke", row.jti).code == 0
    assert remit("clock", "accept", "--yes", "--json").document["tokens_dated_later"] == []


def test_an_expired_approval_stays_expired_and_a_denied_plan_stays_denied(
    remit: Remit, project: Path, tmp_path: Path
) -> None:
    plan = plan_of(replace("a1", "notes.txt", "two", "three"), plan_id="p")
    denied = remit("propose", "-", "--json", stdin=plan).document["proposal_id"]
    assert remit("approvals", "deny", denied, "--reason", "not now").code == 0
    with opened(tmp_path) as workspace:
        envelope = workspace.approve(plan)
    with opened(tmp_path, AHEAD) as workspace:
        assert refused(workspace.apply(envelope.canonical()))[0] == 1004
    write_ahead(tmp_path)
    assert remit("clock", "accept", "--yes").code == 0

    (project / "envelope.json").write_bytes(envelope.canonical())
    stays = remit("apply", "envelope.json")
    assert (stays.code, "recorded as expired" in stays.err) == (2, True), stays
    late = remit("apply", "--proposal", denied)
    assert (late.code, "denied it: not now" in late.err) == (2, True), late
    assert (project / "notes.txt").read_text() == "one\ntwo\n"
    assert apply_plan(remit, project, tmp_path, "two", "three").code == 0, "a new approval is judged by the clock"


@pytest.mark.parametrize(
    "before, found, words", [(-AHEAD, "jumped_ahead", "was set ahead"), (AHEAD, "jumped_back", "was set back")]
)
def test_a_jump_of_the_machines_own_clock_is_noticed_by_the_next_command_that_records_something(
    remit: Remit, project: Path, before: timedelta, found: str, words: str
) -> None:
    """The clock of the machine cannot be set here. So the file of the last command is made to say other times."""
    issue = ("token", "issue", "--sub", "bot", "--cap", "plan.propose", "--json")
    assert remit(*issue).code == 0
    (hint,) = (project.parent / "state").glob("*/clock.json")
    kept = json.loads(hint.read_bytes())
    shown = datetime.fromisoformat(kept["shown"]) + before
    hint.write_text(json.dumps({**kept, "shown": shown.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}))
    assert remit("clock", "show", "--json").document["noticed"] == [], "looking records nothing"
    assert remit(*issue).code == 0, "it stops nothing"
    assert remit(*issue).code == 0
    (noticed,) = remit("clock", "show", "--json").document["noticed"]
    assert (noticed["kind"], noticed["found"]) == ("clock.jumped", found), "once"
    assert words in remit("clock", "show").out
    assert remit("ledger", "verify").code == 0
