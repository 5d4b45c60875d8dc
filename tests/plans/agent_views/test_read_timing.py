"""When an agent with `plan.read` sees a preview: never because of how long a computation took on what it may not read.

The clock of these workspaces is moved, and their turns are long. So no test depends on the speed of the machine.
"""

import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from remit.core.ids import parse_time
from remit.identity.callers import AgentCaller
from remit.plans.proposals import admission, queries
from remit.plans.proposals.previews import ComputedPreview, StoredPreview, stored_preview
from remit.plans.proposals.turns import FIELD
from remit.services.base.jobs import MAX_PER_OWNER
from remit.services.plans.preview_turns import HIGHEST_LIMIT, LOWEST_LIMIT, TurnRules, depends_on_machine, draw_limit
from remit.services.plans.service import PlanService
from remit.store.proposals import ProposalRow
from tests.mcp_server.mcp_office import over_http, talking
from tests.plans.agent_views.test_read_authority import DOCS, READ, SHOWN
from tests.plans.agent_views.worlds import FIRST, SECRET, TURNS, World
from tests.plans.project import plan_of
from tests.support.counted_sandboxes import count_sandboxes
from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.web_server import Who

__all__ = ["zygotes_are_shared"]
Worlds = tuple[World, World]
pytestmark = pytest.mark.req("PV-04")

ENDLESS: Final = f"SELECT count(*) FROM range({10**15}) -- password='{SECRET}-and-more'".encode()
SHORT: Final = f"SELECT 1 -- password='{SECRET}-and-more'".encode()
MARGIN: Final = timedelta(seconds=20)
EDIT: Final = SHOWN["an edit"][0]


def _sql(file: str, plan_id: str, **action: Any) -> bytes:
    operation = {"type": "sql_execute", "query_file": file, "connection": "open"}
    action = {"action_id": "s", "action_type": "SQL_EXECUTE", "operation": operation, **action}
    return plan_of(action, plan_id=plan_id)


class Limit:
    """The part of a turn that a computation may use, for a test to set."""

    share = 1.0

    def __call__(self) -> float:
        return self.share


@pytest.fixture(scope="module")
def limit() -> Limit:
    return Limit()


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory, limit: Limit) -> Iterator[Worlds]:
    """They differ in a query that holds a credential: in the first it never ends."""
    folder, rules = tmp_path_factory.mktemp("timed"), TurnRules(TURNS.length, limit)
    files = {**FIRST, **DOCS, "docs/endless.sql": ENDLESS}
    made = [
        World(folder / str(number), {**files, "docs/creds.sql": content}, 2, READ, rules)
        for number, content in enumerate((ENDLESS, SHORT))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission, "MAX_IN_WINDOW", 10_000)
        yield made[0], made[1]
    for world in made:
        world.close()


@pytest.fixture(autouse=True)
def _separate(worlds: Worlds, limit: Limit) -> Iterator[None]:
    """No test waits for a turn of another one."""
    limit.share = 1.0
    yield
    for world in worlds:
        world.site.clock.offset += 20 * TURNS.length
        assert world.site.desk.plans.finish_previews(60)


def _propose(world: World, plan: bytes, who: Who | None = None) -> str:
    made = world.ask("POST", "/v1/plans", {"plan": json.loads(plan)}, who=who)
    assert made.status == 201, made.body
    return str(made.tree["proposal_id"])


def _status(world: World, proposal_id: str, who: Who | None = None) -> str:
    return str(world.ask("GET", f"/v1/plans/{proposal_id}/preview", who=who).tree.get("document", {}).get("status"))


def _payloads(world: World, proposal_id: str, kind: str) -> list[dict[str, Any]]:
    query = "SELECT payload FROM ledger_entries WHERE correlation_id = ? AND kind = ? ORDER BY seq"
    with world.site.workspace.store.reading() as connection:
        return [json.loads(payload) for (payload,) in connection.rows(query, (proposal_id, kind))]


def _turn(world: World, proposal_id: str) -> tuple[datetime, datetime] | None:
    (made,) = _payloads(world, proposal_id, "proposal.made")
    turn = made.get(FIELD)
    return None if turn is None else (parse_time(turn["starts_at"]), parse_time(turn["ends_at"]))


def _move_to(world: World, at: datetime) -> None:
    world.site.clock.offset += at - world.site.clock()


def _wait_until_ended(world: World, proposal_id: str) -> None:
    job = world.site.desk.plans._previews.jobs.find(f"plan:{proposal_id}")  # noqa: SLF001 - to know when it ended
    assert job is not None, "it was not dropped"
    assert job.wait_until_ended(60)


# --- (a) an agent with two tokens -------------------------------------------------------------------------------------


def test_a_preview_that_the_proposing_token_could_not_read_is_never_shown(worlds: Worlds) -> None:
    """It is computed in the threads where unreadable ones are computed, so its moment depends on them."""
    world = worlds[0]
    without = world.site.agent("bot", "plan.propose", "plan.execute_preview")
    for plan in (EDIT, SHOWN["rows"][0]):
        made, readable = _propose(world, plan, without), _propose(world, plan)
        assert _turn(world, made) is None
        assert _turn(world, readable) is not None
        note = world.ask("GET", f"/v1/plans/{made}").tree["preview_note"]
        assert note == world.ask("GET", f"/v1/plans/{made}", who=without).tree["preview_note"] is None
        assert world.site.desk.plans.finish_previews(60)
        assert _status(world, made, world.operator) == "READY"
        world.site.clock.offset += TURNS.length
        token = world.token.headers["Authorization"].split()[1]
        with talking(over_http(f"{world.site.url}/mcp", token)) as talk:
            told = [talk.ok("read_plan_preview", proposal_id=each)["document"]["status"] for each in (made, readable)]
        assert told == ["WITHHELD", "READY"]
        again = world.ask("POST", f"/v1/plans/{readable}/preview", {}, who=world.operator)
        assert again.status == 200
        assert _status(world, readable) == "WITHHELD", "a person had it computed again, not in a turn"


# --- (b) a file that the token names, and that holds a credential -----------------------------------------------------


def test_a_readable_preview_appears_at_the_same_time_whatever_was_computed_before_it(worlds: Worlds) -> None:
    told, moments = [], []
    for world in worlds:
        began = world.site.clock()
        hidden, shown = _propose(world, _sql("docs/creds.sql", plan_id="hidden")), _propose(world, EDIT)
        turns = [_turn(world, hidden), _turn(world, shown)]
        assert turns[0] is not None
        assert turns[1] is not None
        moments.append([round((at - turns[0][0]).total_seconds(), 6) for turn in turns if turn for at in turn])
        assert timedelta(0) <= turns[0][0] - began < MARGIN
        answers: list[str] = []

        def ask(*made: str, world: World = world, answers: list[str] = answers) -> None:
            for each in made:
                answers.extend((world.told("GET", f"/v1/plans/{each}")[1], _status(world, each)))

        ask(hidden, shown)
        _move_to(world, turns[0][1])
        _wait_until_ended(world, shown)
        assert _status(world, shown, world.operator) == "READY", "people see it at once"
        _move_to(world, turns[1][1] - MARGIN)
        ask(hidden, shown)
        _move_to(world, turns[1][1])
        ask(hidden, shown)
        assert world.site.desk.plans.finish_previews(60), "the one that never ends was stopped"
        ask(hidden, shown)
        told.append(answers)
    assert moments[0] == moments[1] == [0.0, 60.0, 60.0, 120.0]
    assert told[0] == told[1]
    assert told[0][1::2] == [*("WITHHELD",) * 5, "READY", "WITHHELD", "READY"]


def test_the_preview_of_a_file_with_a_credential_is_not_even_read(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading it takes longer the larger it is, and so the agent would learn whether its edit matches."""
    world = worlds[1]
    edit = {"type": "text_replace", "pattern": "SELECT", "replacement": "select"}
    action = {"action_id": "e", "action_type": "FILE_MODIFY", "target": "docs/creds.sql", "operation": edit}
    hidden, shown = _propose(world, plan_of(action, plan_id="creds")), _propose(world, EDIT)
    for made in (hidden, shown):
        turn = _turn(world, made)
        assert turn is not None
        _move_to(world, turn[0])
        _wait_until_ended(world, made)
        _move_to(world, turn[1])
    recorded = [_payloads(world, made, "proposal.previewed") for made in (hidden, shown)]
    assert [[each.get("in_turn") for each in entries] for entries in recorded] == [[None], [True]]
    read: list[str] = []

    def stored(connection: Any, keyring: Any, row: ProposalRow) -> StoredPreview | None:
        read.append(row.proposal_id)
        return stored_preview(connection, keyring, row)

    monkeypatch.setattr(queries, "stored_preview", stored)
    assert (_status(world, hidden), _status(world, shown)) == ("WITHHELD", "READY")
    assert read == [shown]


def test_a_stopped_preview_is_left_to_a_person_or_computed_for_people(worlds: Worlds) -> None:
    """SQL is not run a second time without a decision. Edits are computed again, and the agent is never shown them."""
    world = worlds[0]
    endless = _propose(world, _sql("docs/endless.sql", plan_id="endless"))
    edit = _propose(world, EDIT)
    turn = _turn(world, edit)
    assert turn is not None
    _move_to(world, turn[1])
    assert world.site.desk.plans.finish_previews(60)
    view = world.ask("GET", f"/v1/plans/{endless}", who=world.operator).tree
    assert (view["preview_state"], "took too long" in view["preview_note"]) == ("not_computed", True)
    assert [each["why"] for each in _payloads(world, endless, "proposal.preview_deferred")] == ["turn"]
    assert (_status(world, endless), _status(world, edit)) == ("WITHHELD", "WITHHELD")
    assert _status(world, edit, world.operator) == "READY"


def test_a_turn_does_not_wait_for_previews_outside_of_turns(worlds: Worlds) -> None:
    """They take all threads of their own, and as many jobs as an agent may have."""
    world = worlds[0]
    gate, jobs = threading.Event(), world.site.desk.plans._previews.jobs  # noqa: SLF001 - to be sure that they are busy
    try:
        for owner in ("agent:bot", "agent:a", "agent:b", "agent:c"):
            for number in range(MAX_PER_OWNER):
                jobs.start(f"held:{owner}:{number}", lambda _: _wait(gate), owner=owner)
        made = _propose(world, EDIT)
        _wait_until_ended(world, made)
        world.site.clock.offset += TURNS.length
        assert _status(world, made) == "READY"
    finally:
        gate.set()


def _wait(gate: threading.Event) -> None:
    gate.wait(60)


# --- (c) a preview that takes long ------------------------------------------------------------------------------------


def test_a_preview_that_took_long_or_that_the_machine_cut_short_is_never_shown(worlds: Worlds, limit: Limit) -> None:
    world = worlds[0]
    limited = _sql("docs/endless.sql", plan_id="limited", timeout_seconds=1)
    limit.share = 0.0
    for plan, share, status in ((EDIT, 0.0, "READY"), (limited, 1.0, "WOULD_FAIL")):
        limit.share = share
        made = _propose(world, plan)
        note = world.ask("GET", f"/v1/plans/{made}").tree["preview_note"]
        assert world.site.desk.plans.finish_previews(60)
        assert _status(world, made, world.operator) == status, "people see it"
        for _ in range(3):
            world.site.clock.offset += TURNS.length
            assert _status(world, made) == "WITHHELD"
        assert world.ask("GET", f"/v1/plans/{made}").tree["preview_note"] == note is not None
    plans = world.site.workspace.plans
    assert [depends_on_machine(plans.preview(plan)) for plan in (limited, SHOWN["no match"][0])] == [True, False]


def test_a_preview_that_is_stored_late_is_never_shown(worlds: Worlds) -> None:
    """So the time that a disk needs does not decide when it appears."""
    world = worlds[0]
    proposals, made = world.site.workspace.proposals, _propose(world, EDIT)
    assert world.site.desk.plans.finish_previews(60)
    row = proposals.find(made)
    assert row is not None
    stored, turn = proposals.preview_of(row), proposals.turn_of(row)
    assert stored is not None
    assert turn is not None
    computed = ComputedPreview(stored.preview_digest, stored.document.encode(), "a plan", "LOW")
    for at, in_turn in ((turn.stops_at - timedelta(seconds=20), True), (turn.stops_at, None)):
        _move_to(world, at)
        proposals.replace_preview(made, computed, "agent:bot", turn=turn)
        assert _payloads(world, made, "proposal.previewed")[-1].get("in_turn") is in_turn
    _move_to(world, turn.ends_at)
    assert _status(world, made) == "WITHHELD"


def test_an_earlier_preview_of_the_same_plan_does_not_make_a_long_one_short(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether an earlier one is stored depends on the threads outside of turns. So each turn computes anew."""
    world = worlds[0]
    without = world.site.agent("bot", "plan.propose", "plan.execute_preview")
    plan = _sql("docs/q.sql", plan_id="same")
    _propose(world, plan, without)
    assert world.site.desk.plans.finish_previews(60)
    sandboxes = count_sandboxes(monkeypatch)
    _propose(world, plan)
    assert world.site.desk.plans.finish_previews(60)
    assert sandboxes, "it was computed"


def test_the_limit_is_another_one_each_time() -> None:
    drawn = [draw_limit() for _ in range(200)]
    assert all(LOWEST_LIMIT <= each <= HIGHEST_LIMIT for each in drawn)
    assert len(set(drawn)) > 150
    assert max(drawn) - min(drawn) > (HIGHEST_LIMIT - LOWEST_LIMIT) / 2


# --- after a restart --------------------------------------------------------------------------------------------------


def test_another_process_knows_the_moment(worlds: Worlds) -> None:
    world = worlds[0]
    made = _propose(world, EDIT)
    assert world.site.desk.plans.finish_previews(60)
    turn = _turn(world, made)
    assert turn is not None
    token = world.token.headers["Authorization"].split()[1]
    with world.site.project.opened() as workspace:
        restarted = PlanService(workspace)
        agent = AgentCaller.by(workspace.tokens, token)
        _move_to(world, turn[1] - MARGIN)
        assert restarted.read_preview(agent, made).document.status == "WITHHELD"
        _move_to(world, turn[1])
        assert restarted.read_preview(agent, made).document.status == "READY"
        restarted.close()
