"""Promotion: by a person, of one digest, for one tenant, in the ledger; and out of the agent's reach."""

import ast
import json
import threading
from pathlib import Path
from typing import Any

import pytest

import remit.goals
from remit.contracts.goals.simulation import Simulation
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.goals.promotion import PromotionService
from remit.identity.person import Person
from remit.ledger.entry import NewEntry
from remit.ledger.goal_queries import CORRELATION, KIND, newest_state_seq, read_states
from remit.ledger.writer import Ledger
from tests.goals.catalogue.simulations import ALL, MOVE, changed, simulation
from tests.support.store_fixtures import World

ANN = Person("os:ann", "Ann")
ID = "file-report"


class Desk:
    """A promotion over definitions that a test can change."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.trees: list[dict[str, Any]] = list(ALL)
        self.promotion = PromotionService(self.read, lambda: {"acme", "globex"}, lambda: world.ledger)

    def read(self) -> tuple[Simulation, ...]:
        return tuple(simulation(tree) for tree in self.trees)

    def change(self, **changes: Any) -> None:
        self.trees = [changed(tree, **changes) if tree["id"] == ID else tree for tree in self.trees]

    def promote(self, tenant: str = "acme", **more: Any) -> None:
        self.promotion.promote(ID, tenant_id=tenant, who=ANN, **more)

    def retire(self, tenant: str = "acme") -> None:
        self.promotion.retire(ID, tenant_id=tenant, who=ANN)

    def state(self, tenant: str = "acme") -> str:
        entry = self.promotion.catalogue(tenant).find(ID)
        assert entry is not None
        return entry.state


@pytest.fixture
def desk(world: World) -> Desk:
    return Desk(world)


def refused(call: Any, *arguments: Any, **named: Any) -> Reason:
    with pytest.raises(RefusedError) as problem:
        call(*arguments, **named)
    return problem.value.reason


@pytest.mark.req("AC-18")
def test_the_status_separates_active_changed_and_missing_simulations_and_next_steps_name_the_tenant(desk: Desk) -> None:
    desk.promote()
    desk.promotion.promote("undo-file-report", tenant_id="acme", who=ANN)
    desk.promotion.promote("look-up-order", tenant_id="acme", who=ANN)
    desk.change(title="Another title")
    desk.trees = [tree for tree in desk.trees if tree["id"] != "look-up-order"]
    assert desk.promotion.status("acme") == (("undo-file-report",), (ID,), ("look-up-order",))
    assert desk.promotion.status("globex") == ((), (), ())
    with pytest.raises(RefusedError) as changed_since:
        desk.promote(digest="sha256:" + "0" * 64)
    assert changed_since.value.next_step == f"Read it again: remit catalogue show {ID} --tenant acme"
    with pytest.raises(RefusedError) as never:
        desk.retire("globex")
    assert never.value.next_step == "See: remit catalogue list --tenant globex"


@pytest.mark.req("AC-06", "AC-18")
def test_a_simulation_goes_from_draft_to_active_to_retired_and_back_for_one_tenant(desk: Desk) -> None:
    assert desk.state() == "DRAFT"
    assert refused(desk.retire) is Reason.TRANSITION_INVALID
    desk.promote(reason="ready; password=hunter2secret")
    assert (desk.state(), desk.state("globex")) == ("ACTIVE", "DRAFT")
    assert refused(desk.promote) is Reason.TRANSITION_INVALID
    desk.retire()
    assert desk.state() == "RETIRED"
    assert refused(desk.retire) is Reason.TRANSITION_INVALID
    desk.promote()
    assert desk.state() == "ACTIVE"

    desk.change(title="File a report now")
    assert desk.state() == "DRAFT"
    desk.promote()
    assert desk.state() == "ACTIVE"
    desk.change(title=MOVE["title"])
    assert desk.state() == "DRAFT"

    rows = desk.world.attacker.run(
        "SELECT actor, payload FROM ledger_entries WHERE kind = ? ORDER BY seq", ("catalogue.state",)
    )
    payloads = [json.loads(payload) for _, payload in rows]
    assert [each["state"] for each in payloads] == ["ACTIVE", "RETIRED", "ACTIVE", "ACTIVE"]
    assert {actor for actor, _ in rows} == {"os:ann"}
    assert "hunter2secret" not in str(rows)
    assert desk.world.verify().holds


@pytest.mark.req("AC-18")
def test_only_a_person_promotes_and_only_what_the_person_has_read(desk: Desk) -> None:
    for nobody in (None, "os:ann", object(), {"id": "os:ann"}):
        for change in (desk.promotion.promote, desk.promotion.retire):
            assert refused(change, ID, tenant_id="acme", who=nobody) is Reason.PERMISSION_DENIED
    assert refused(desk.promote, digest="sha256:" + "0" * 64) is Reason.BINDING_MISMATCH
    assert refused(desk.promote, "nobody") is Reason.MALFORMED
    assert refused(desk.promotion.promote, "none", tenant_id="acme", who=ANN) is Reason.SIMULATION_UNKNOWN
    assert desk.promotion.states("acme") == {}
    desk.promote(digest=simulation(MOVE).own_digest)
    assert desk.state() == "ACTIVE"


def test_what_is_active_can_be_stopped_whatever_became_of_its_file(desk: Desk) -> None:
    desk.promote()
    desk.trees = []
    desk.retire()
    desk.trees = list(ALL)
    assert desk.state() == "RETIRED"


def test_a_broken_catalogue_promotes_nothing(world: World) -> None:
    def broken() -> tuple[Simulation, ...]:
        raise RefusedError(Reason.MALFORMED, "two simulations have the same id")

    promotion = PromotionService(broken, lambda: {"acme"}, lambda: world.ledger)
    assert refused(promotion.promote, ID, tenant_id="acme", who=ANN) is Reason.MALFORMED
    assert promotion.states("acme") == {}


@pytest.mark.req("AC-06")
def test_a_state_that_was_written_directly_into_the_database_is_not_believed(desk: Desk) -> None:
    desk.promote()
    desk.retire()
    attacker = desk.world.attacker
    attacker.drop_guards()
    [(payload,)] = attacker.run("SELECT payload FROM ledger_entries WHERE seq = 2")
    attacker.run("UPDATE ledger_entries SET payload = ? WHERE seq = 2", (payload.replace("RETIRED", "ACTIVE"),))
    with pytest.raises(EnvironmentFailureError) as problem:
        desk.state()
    assert problem.value.reason is Reason.EVIDENCE_INVALID

    attacker.run("UPDATE ledger_entries SET payload = ? WHERE seq = 2", (payload,))
    assert desk.state() == "RETIRED"
    attacker.run(
        "INSERT INTO ledger_entries SELECT tenant_id, 3, 'forged', created_at, kind, correlation_id, task_id,"
        " capability_id, actor, payload, prev_hash, hash FROM ledger_entries WHERE seq = 1"
    )
    with pytest.raises(EnvironmentFailureError):
        desk.state()


def test_people_who_promote_at_once_do_not_both_succeed(desk: Desk) -> None:
    desk.state()
    outcomes: list[str] = []
    ready = threading.Barrier(4)

    def go() -> None:
        ready.wait()
        try:
            desk.promote()
            outcomes.append("done")
        except RefusedError as problem:
            outcomes.append(problem.reason.value)

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["done", *["transition_invalid"] * 3]
    with desk.world.store.reading() as connection:
        assert newest_state_seq(connection, "acme") == 1


def test_a_decision_made_on_what_is_no_longer_so_is_made_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else retires between the look and the write: the promotion sees it, and builds on it."""
    desk.promote()
    calls = 0
    transact = Ledger.transact

    def late(self: Ledger, work: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            monkeypatch.setattr(Ledger, "transact", transact)
            desk.retire()
        return transact(self, work)

    monkeypatch.setattr(Ledger, "transact", late)
    assert refused(desk.retire) is Reason.TRANSITION_INVALID
    assert desk.state() == "RETIRED"


def test_entries_of_another_kind_and_of_other_tenants_change_nothing(world: World) -> None:
    desk = Desk(world)
    desk.promote("globex")
    world.ledger.append(NewEntry("acme", "test.event", CORRELATION, {"simulation_id": ID, "state": "ACTIVE"}))
    assert desk.state() == "DRAFT"
    world.ledger.append(NewEntry("acme", KIND, CORRELATION, {"simulation_id": ID, "state": "ACTIVE"}))
    with pytest.raises(RefusedError), world.store.reading() as connection:
        read_states(connection, lambda: world.keyring, "acme")


@pytest.mark.req("AC-18")
def test_nothing_in_the_agent_knows_how_to_promote() -> None:
    """import-linter keeps the room out of reach; here, that no module writes such an entry by itself."""
    folder = Path(remit.goals.__file__).parent
    modules = [path for path in sorted(folder.rglob("*.py")) if path.name != "promotion.py"]
    assert len(modules) > 12
    for module in modules:
        tree = ast.parse(module.read_text())
        names = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        rooms = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert "remit.goals.promotion" not in rooms | names, module
        assert KIND not in texts, module
        assert not {"KIND", "CORRELATION"} & names or "remit.ledger.goal_queries" not in rooms, module
