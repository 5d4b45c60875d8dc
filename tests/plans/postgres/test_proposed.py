"""A plan on a server that an agent proposed: why it cannot be approved or applied, in the words for each caller."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from click.testing import CliRunner

from remit.authority.capability_token import TokenRequest
from remit.cli import main
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.services.plans import ProposalView
from remit.core.errors import Reason, RemitError
from remit.identity.callers import AgentCaller
from remit.services.plans.service import PlanService
from remit.services.services import Services
from remit.web.console.outcomes import describe_next_step
from tests.plans.postgres.postgres_project import UPDATE, VARIABLE, Store, on_shop
from tests.plans.project import plan_of, replace
from tests.services.plans.proposal_workspace import ADMIN, APPROVER, CAPS, refusal_of

PLAN = plan_of(replace("a1", "a.txt"), on_shop("a2", UPDATE))


class Office:
    """The plans of one store, with the agent that proposes them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.plans = PlanService(store.workspace)
        issued = store.workspace.tokens.issue(TokenRequest("bot", CAPS, TokenConstraints(), timedelta(hours=1)))
        self.agent = AgentCaller.by(store.workspace.tokens, issued.text)

    def propose(self, plan: bytes = PLAN) -> ProposalView:
        made = self.plans.propose(self.agent, plan)
        assert self.plans.finish_previews(60)
        return made

    def approve(self, made: ProposalView) -> ProposalView:
        shown = self.plans.read_preview(APPROVER, made.proposal_id)
        return self.plans.decide(APPROVER, made.proposal_id, approved=True, preview_digest=shown.preview_digest)

    def apply(self, caller: object, made: ProposalView) -> RemitError:
        """The refusal of an apply."""
        return refusal_of(self.plans.apply, caller, made.proposal_id, wait=30)


@pytest.fixture
def open_office(open_store: Callable[..., Store]) -> Iterator[Callable[[], Office]]:
    made: list[Office] = []

    def make() -> Office:
        made.append(Office(open_store()))
        return made[-1]

    yield make
    for one in made:
        one.plans.close()


@pytest.fixture
def office(open_office: Callable[[], Office]) -> Office:
    return open_office()


def test_an_apply_after_rows_changed_names_their_table_and_leaves_the_approval(office: Office) -> None:
    """Approving executes nothing on the server. The apply compares the rows before the intent."""
    made = office.propose()
    office.store.ask("UPDATE orders SET state = 'done' WHERE id = 1")
    assert office.approve(made).state == "APPROVED"
    problem = refusal_of(office.plans.apply, ADMIN, made.proposal_id, wait=30)
    assert problem.reason is Reason.BINDING_MISMATCH
    assert "rows" in problem.what
    assert "public.orders (1 updated)" in problem.what
    assert problem.where == "connection:shop/"
    office.store.ask("UPDATE orders SET state = 'open' WHERE id = 1")


def test_an_approval_after_a_file_changed_names_the_file(office: Office) -> None:
    made = office.propose()
    office.store.write("a.txt", "one\ntwo\nfour\n")
    problem = refusal_of(office.approve, made)
    assert (problem.reason, problem.where) == (Reason.HASH_MISMATCH, f"plan {made.plan_id}, a.txt")
    assert "row" not in problem.what
    assert f"remit approvals compute {made.proposal_id}" in problem.next_step


def test_an_apply_after_rows_changed_names_their_table_to_people_only(office: Office) -> None:
    made = office.approve(office.propose())
    office.store.ask("UPDATE orders SET state = 'done' WHERE id = 1")
    told = office.apply(ADMIN, made)
    assert told.reason is Reason.BINDING_MISMATCH
    assert "public.orders (1 updated)" in told.what
    assert "rows" in told.next_step
    told = office.apply(office.agent, made)
    assert told.reason is Reason.BINDING_MISMATCH
    assert "orders" not in str(told)
    office.store.ask("UPDATE orders SET state = 'open' WHERE id = 1")
    assert office.plans.apply(office.agent, made.proposal_id, wait=30).state == "APPLIED"


def test_an_agent_learns_that_the_machine_lacks_the_url_and_that_the_approval_stays_valid(office: Office) -> None:
    made = office.approve(office.propose())
    url = office.store.environ.pop(VARIABLE)
    told = office.apply(ADMIN, made)
    assert told.reason is Reason.CONFIG_INVALID
    assert VARIABLE in told.what
    assert "approval stays valid" in told.next_step
    told = office.apply(office.agent, made)
    assert told.reason is Reason.CONFIG_INVALID
    assert "approval stays valid" in told.next_step
    assert "connection" in told.what
    assert VARIABLE not in str(told)
    (refused,) = [office.plans.get(who, made.proposal_id).refused for who in (office.agent,)]
    assert refused is not None
    assert (refused.code, refused.next_step) == (Reason.CONFIG_INVALID, told.next_step)
    office.store.environ[VARIABLE] = url
    assert office.plans.apply(office.agent, made.proposal_id, wait=30).state == "APPLIED"


def test_what_an_agent_learns_of_a_missing_url_does_not_depend_on_files(office: Office) -> None:
    store = office.store
    store.write("folder/c.txt")
    made = office.approve(office.propose(plan_of(replace("a1", "folder/c.txt"), on_shop("a2", UPDATE))))
    url = store.environ.pop(VARIABLE)
    first = office.apply(office.agent, made)
    (store.root / "folder").rename(store.root / "elsewhere")
    store.root.joinpath("folder").symlink_to("elsewhere")
    assert str(office.apply(office.agent, made)) == str(first)
    store.environ[VARIABLE] = url
    assert office.apply(ADMIN, made).reason is Reason.PATH_REFUSED, "so the files do differ"


def test_why_an_apply_of_another_process_was_refused_is_shown_to_people(office: Office) -> None:
    made = office.approve(office.propose())
    del office.store.environ[VARIABLE]
    office.apply(office.agent, made)
    other = PlanService(office.store.workspace)
    refused = other.get(ADMIN, made.proposal_id).refused
    assert refused is not None
    assert (refused.code, VARIABLE in refused.what) == (Reason.CONFIG_INVALID, True)
    assert "approval stays valid" in refused.next_step
    assert other.get(office.agent, made.proposal_id).refused is None
    other.close()
    services = Services(office.store.workspace)
    view = services.inbox.show(ADMIN, "plan", made.proposal_id)
    text = describe_next_step(view, services.plans.get(ADMIN, made.proposal_id), None)
    assert "was refused, and nothing was changed" in text
    assert VARIABLE in text
    services.close()


def test_why_no_preview_could_be_computed_is_shown_to_people_only(office: Office) -> None:
    url = office.store.environ.pop(VARIABLE)
    made = office.plans.propose(office.agent, PLAN)
    assert office.plans.finish_previews(60)
    office.plans.close()
    other = Office(office.store)
    problem = refusal_of(other.plans.read_preview, ADMIN, made.proposal_id)
    assert (VARIABLE in problem.what, "Set it" in problem.next_step) == (True, True)
    assert f"remit approvals compute {made.proposal_id}" in problem.next_step
    shown = CliRunner().invoke(
        main, ["approvals", "show", made.proposal_id, "-C", str(office.store.root)], env=office.store.environ
    )
    assert "none is stored: computing it failed" in shown.output, shown.output
    assert VARIABLE in shown.output
    assert VARIABLE not in other.plans.get(office.agent, made.proposal_id).canonical().decode()
    office.store.environ[VARIABLE] = url
    other.plans.compute_preview(ADMIN, made.proposal_id)
    assert other.approve(made).state == "APPROVED"
    other.plans.close()
    assert office.store.workspace.verify_ledger().holds


def test_an_agent_gets_no_empty_list_where_only_people_see_what_cannot_be_undone(office: Office) -> None:
    drop, update, read = "DROP TABLE orders", "UPDATE log SET line = 'x'", "SELECT 1"
    for queries, irreversible, risk in (
        ([drop], ("a0",), "HIGH"),
        (["ALTER TABLE orders ADD note text", read], ("a0",), "HIGH"),
        ([update], None, "MEDIUM"),
        ([drop, update], None, "HIGH"),
        (["DELETE FROM orders"], None, "HIGH"),
        (["this is no SQL"], None, "MEDIUM"),
        ([read], (), "MEDIUM"),
    ):
        plan = plan_of(*(on_shop(f"a{number}", query) for number, query in enumerate(queries)))
        seen = office.plans.preview(office.agent, plan)
        assert (seen.needs.irreversible, seen.risk) == (irreversible, risk), queries
        office.store.write("query.sql", queries[0])
        seen = office.plans.preview(office.agent, plan_of(on_shop("a0", None, query_file="query.sql")))
        assert (seen.needs.irreversible, seen.risk) == (None, "MEDIUM"), queries
        if irreversible is not None:
            people = office.plans.preview(ADMIN, plan)
            assert set(people.needs.irreversible) == set(irreversible), queries
            assert (people.risk == "HIGH") is (risk == "HIGH"), queries
