"""One tenant's catalogue: states hold for a digest, a document gives the same catalogue again."""

import json
from dataclasses import replace

import pytest

from remit.core.errors import RefusedError
from remit.core.ttl_cache import TTLCache
from remit.goals.catalogue.catalogue import Catalogue, build_catalogue
from remit.ledger.goal_queries import PromotedState
from tests.goals.catalogue.simulations import ALL, MOVE, REFUND, catalogue_of, changed, simulation


def _state(tree: dict[str, object], state: str = "ACTIVE") -> dict[str, PromotedState]:
    made = simulation(tree)
    said = PromotedState(made.id, made.version, made.own_digest, "ACTIVE", "os:ann", "", "")
    return {made.id: said if state == "ACTIVE" else replace(said, state="RETIRED")}


@pytest.mark.req("AC-06")
def test_a_state_holds_for_the_digest_that_was_promoted_and_no_other() -> None:
    def stands(tree: dict[str, object], states: dict[str, PromotedState]) -> str | None:
        entry = build_catalogue("acme", [simulation(tree)], states).find("file-report")
        return entry.state if entry else None

    assert stands(MOVE, {}) == "DRAFT"
    assert stands(MOVE, _state(MOVE)) == "ACTIVE"
    assert stands(MOVE, _state(MOVE, "RETIRED")) == "RETIRED"
    assert stands(changed(MOVE, title="File it"), _state(MOVE)) == "DRAFT"
    assert stands(changed(MOVE, timeout_seconds=61), _state(MOVE)) == "DRAFT"
    assert stands(changed(MOVE, title="File it"), _state(MOVE, "RETIRED")) == "DRAFT"


@pytest.mark.req("AC-13")
def test_a_catalogue_comes_back_from_its_document_and_only_unchanged() -> None:
    made = catalogue_of(*ALL, active=["refund-order"])
    tree = json.loads(json.dumps(made.document()))
    again = Catalogue.from_document(tree)
    assert (again.ref, again.entries) == (made.ref, made.entries)
    assert [entry.simulation.id for entry in again] == sorted(each["id"] for each in ALL)

    other = json.loads(json.dumps(tree))
    other["simulations"][0]["simulation"]["title"] = "Something else"
    with pytest.raises(RefusedError):
        Catalogue.from_document(other)
    for broken in ({**tree, "more": 1}, {**tree, "simulations": tree["simulations"][::-1]}, {**tree, "version": 2}):
        with pytest.raises(RefusedError):
            Catalogue.from_document(broken)


def test_the_ref_tells_tenants_states_and_definitions_apart() -> None:
    refs = {
        catalogue_of().ref,
        catalogue_of(tenant="globex").ref,
        catalogue_of(active=["refund-order"]).ref,
        catalogue_of(*ALL[1:]).ref,
        catalogue_of(changed(REFUND, version="2"), *ALL[1:]).ref,
    }
    assert len(refs) == 5
    assert catalogue_of(*ALL[::-1]).ref == catalogue_of().ref


@pytest.mark.req("AC-21")
def test_what_is_kept_is_bounded_in_number_and_time_and_found_by_its_digest_only() -> None:
    now, made = [0.0], []
    kept: TTLCache[str, str] = TTLCache(2, 10, clock=lambda: now[0])

    def get(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key

        return kept.get(key, make)

    assert [get("a"), get("a"), get("b"), get("c")] == ["a", "a", "b", "c"]
    assert (made, len(kept)) == (["a", "b", "c"], 2)
    get("a")
    now[0] = 10.0
    get("a")
    assert made == ["a", "b", "c", "a", "a"]
