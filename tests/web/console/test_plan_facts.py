"""What the pages of plans, runs and tokens say about undo, kept files, SQL and limits."""

import html
import re
from datetime import timedelta

import pytest

from remit.authority.capability_token import TokenRequest
from remit.cli.plans.render import render_preview
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.services.plans import ProposalView
from tests.plans.sql.shop import make_database
from tests.web.console.conftest import Open
from tests.web.console.console_workspace import ADMIN, Stage, created


@pytest.fixture(scope="module")
def proposal(stage: Stage) -> ProposalView:
    make_database(stage.root / "data/shop.duckdb")
    change = {"type": "sql_execute", "connection": "shop", "query": "UPDATE orders SET amount = amount + 1"}
    read = {"type": "sql_execute", "connection": "shop", "query": "SELECT id, state FROM orders ORDER BY id"}
    made = stage.propose(
        "facts",
        {"action_id": "change", "action_type": "SQL_EXECUTE", "operation": change},
        {
            "action_id": "read",
            "action_type": "SQL_EXECUTE",
            "operation": {**read, "save_results_to": "out/rows.csv"},
            "depends_on": ["change"],
        },
    )
    assert stage.desk.plans.finish_previews(60)
    return made


def read_page(stage: Stage, path: str) -> str:
    """Return the text of a page, with one blank between words."""
    cookie, _ = stage.cookie("ada", "admin")
    text = html.unescape(re.sub(r"<[^>]+>", " ", stage.ask("GET", path, Cookie=cookie).text))
    return " ".join(text.split())


@pytest.mark.req("PV-01")
def test_the_page_and_the_terminal_say_the_same_about_undo_and_kept_files(stage: Stage, proposal: ProposalView) -> None:
    shown = read_page(stage, f"/inbox/question?kind=plan&id={proposal.proposal_id}")
    preview = stage.desk.plans.read_preview(ADMIN, proposal.proposal_id)
    verdict = " ".join("\n".join(render_preview(preview.document)).rpartition("  risk  ")[2].split())
    rows = re.search(r" undo (?P<undo>.+) kept (?P<kept>.+) folders ", verdict)
    assert rows
    assert rows["undo"].startswith("Everything can be undone: `remit rollback` restores")
    assert re.fullmatch(r"2 files, [\d.]+ MB, until applied", rows["kept"])
    assert f"Undo {rows['undo']} Kept {rows['kept']} " in shown
    assert f"can be approved until {proposal.expires_at[:16].replace('T', ' ')} UTC" in shown


def test_the_page_shows_the_rows_that_a_query_saves(stage: Stage, proposal: ProposalView) -> None:
    shown = read_page(stage, f"/inbox/question?kind=plan&id={proposal.proposal_id}")
    assert "id state 1 open 2 open 3 done Saved to out/rows.csv : 3 rows." in shown
    assert "+0 −0" not in shown


def test_the_page_of_a_run_tells_what_its_sql_did(stage: Stage, proposal: ProposalView) -> None:
    digest = stage.desk.plans.read_preview(ADMIN, proposal.proposal_id).preview_digest
    stage.desk.plans.decide(ADMIN, proposal.proposal_id, approved=True, preview_digest=digest)
    decided = read_page(stage, f"/inbox/question?kind=plan&id={proposal.proposal_id}")
    assert "can be approved until" not in decided
    stage.desk.plans.apply(ADMIN, proposal.proposal_id, 30)
    shown = read_page(stage, f"/runs/{proposal.proposal_id}")
    assert re.search(r"SQL of change on data/shop\.duckdb updates orders.*, 3 rows changed SQL of read", shown)


def test_a_preview_that_is_not_computed_says_what_has_to_be_done(stage: Stage) -> None:
    make_database(stage.root / "data/other.duckdb")
    query = {"type": "sql_execute", "connection": "shop", "query": "SELECT 1"}
    able, stage.agent = stage.agent, stage.token("weak-bot", "plan.propose")
    made = stage.propose("unseen", {"action_id": "s", "action_type": "SQL_EXECUTE", "operation": query})
    stage.agent = able
    shown = read_page(stage, f"/inbox/question?kind=plan&id={made.proposal_id}")
    assert "Its preview must be computed before it can be approved." in shown
    assert (
        "Compute this preview?"
        in stage.ask(
            "GET", f"/inbox/question?kind=plan&id={made.proposal_id}", Cookie=stage.cookie("ada", "admin")[0]
        ).text
    )


def test_the_last_line_of_a_diff_without_a_line_break_is_as_wide_as_the_others(stage: Stage, window: Open) -> None:
    made = stage.propose("no-break", created("x", "docs/no-break.md", "one\ntwo"))
    page = window("ada")
    page.goto(f"/inbox/question?kind=plan&id={made.proposal_id}")
    widths = page.evaluate("[...document.querySelectorAll('.diff tr')].map(each => each.offsetWidth)")
    assert len(set(widths)) == 1, widths
    assert "No newline at end of file" in page.inner_text(".diff tr.note")


def test_the_page_of_tokens_shows_each_limit_also_on_a_phone(stage: Stage, window: Open) -> None:
    limits = TokenConstraints.from_tree(
        {"domains": ["shop.example"], "max_purchase": {"value": 50, "currency": "EUR"}}, source="test"
    )
    caps = ("browser.navigate", "browser.purchase")
    stage.workspace.tokens.issue(TokenRequest("buyer", caps, limits, timedelta(hours=1)))
    for width in (1280, 390):
        page = window("ada", viewport={"width": width, "height": 800})
        page.goto("/tokens")
        row = page.locator("tr", has_text="buyer")
        assert re.search(r"domains: shop\.example\s+max purchase: 50(\.0)? EUR", row.inner_text()), row.inner_text()
        assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d", row.inner_text())
        button = row.get_by_role("button", name="Revoke").bounding_box()
        sheet = page.locator("section[aria-label=Tokens]").bounding_box()
        assert button
        assert sheet
        assert button["x"] + button["width"] <= sheet["x"] + sheet["width"]
