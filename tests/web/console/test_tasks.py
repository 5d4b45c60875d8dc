"""The work of people in the console, with mouse and keyboard, in a real Chromium."""

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.governed_functions import governed
from remit.identity.callers import PersonCaller
from remit.identity.person import Person
from tests.governed_functions.customer_workspace import result_of
from tests.web.console.conftest import Open
from tests.web.console.console_workspace import ADMIN, APP, TENANT, USER, Stage, created, replaced

DYING = """
import sys
from remit.approvals.service import ApprovalRequest
from remit.contracts.browser.browser import HTTPPreview
from remit.workspace.workspace import Workspace
body = {"masked": {}, "preview": {}}
tree = {"method": "POST", "url": "https://shop.example/", "headers": {}, "body": body, "estimatedEffect": "Buys it"}
digest = "sha256:" + "5" * 64
asked = ApprovalRequest("doomed-bot", "jti", "doomed", digest, digest, HTTPPreview.from_tree(tree))
with Workspace.open(sys.argv[1], environ={"REMIT_STATE": sys.argv[2]}) as workspace:
    print(workspace.approvals.ask(asked).approval_id)
"""


def confirm(page: Page, words: str) -> None:
    """Confirm in the dialog, or on the page of the server if the script was not loaded yet."""
    page.get_by_role("button", name=words).click()


def test_a_person_logs_in_by_a_link_sees_a_new_plan_reads_it_and_approves_it(stage: Stage, window: Open) -> None:
    page = window()
    page.goto("/runs")
    assert page.url.endswith("/login?next=/runs")
    page.goto("about:blank")
    page.goto(stage.invite("ada"))
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    expect(page.get_by_text("No open approval requests")).to_be_visible()
    expect(page.locator("#live")).to_have_text("Live")

    stage.write("src/fees.py")
    proposal = stage.propose(
        "fees",
        replaced("raise-fee", "src/fees.py", "0.02", "0.025"),
        created("note", "docs/fees.md", "# Fees\n", "raise-fee"),
        note="Ticket 4711",
    )
    # The page updates without a reload.
    expect(page.get_by_role("link", name="plan fees")).to_be_visible()
    expect(page.locator("#open-count")).to_contain_text("1")
    assert page.locator("#open-count > .unseen").count() == 1  # the word is for screen readers
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="plan fees")).to_be_visible()
    expect(page.locator(".diff tr.removed").first).to_contain_text("return amount * 0.02")
    expect(page.locator(".diff tr.added mark").first).to_have_text("5")
    assert page.locator(".diff tr.added").first.locator("td.at").all_inner_texts() == ["", "7"]
    expect(page.get_by_text("Ticket 4711")).to_be_visible()
    expect(page.get_by_text("agent:release-bot", exact=True)).to_be_visible()
    expect(page.locator("time[data-until]")).to_have_text("23 h 59 min left")
    expect(page.locator("svg .edge")).to_have_count(1)

    page.get_by_label("Reason").fill("the board said so")
    page.get_by_role("heading", name="Your decision").click()
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_contain_text("Reason: the board said so")
    page.keyboard.press("Escape")
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "PENDING"
    page.locator("main").focus()
    page.keyboard.press("a")
    confirm(page, "Yes, approve")
    expect(page.get_by_text("Approved. The decision is recorded.")).to_be_visible()
    decided = stage.desk.plans.get(stage.agent, proposal.proposal_id)
    assert (decided.state, decided.decided_by, decided.reason) == ("APPROVED", "link:ada", "the board said so")
    expect(page.get_by_text("Waits for agent:release-bot to apply it, until ")).to_be_visible()
    expect(page.locator(".diff tr.removed").first).to_contain_text("return amount * 0.02")
    page.get_by_role("link", name="Open the plan under Runs").click()
    expect(page.locator(".diff tr.removed").first).to_contain_text("return amount * 0.02")

    page.get_by_role("button", name="Log out").click()
    page.goto("/inbox")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_an_approved_plan_is_applied_and_rolled_back_although_a_file_changed_since(stage: Stage, window: Open) -> None:
    file = stage.write("src/rates.py")
    proposal = stage.approved(
        "rates",
        replaced("raise-rate", "src/rates.py", "0.02", "0.025"),
        created("note", "docs/rates.md", "# Rates\n", "raise-rate"),
    )
    page = window("oto", "operator")
    page.goto("/runs")
    page.get_by_role("link", name="plan rates").click()
    page.get_by_role("button", name="Apply").click()
    assert file.read_text() == APP
    confirm(page, "Yes, apply it")
    expect(page.locator("h1 + .row").get_by_text("applied")).to_be_visible()
    expect(page.locator("rect.node.completed")).to_have_count(2)
    assert "0.025" in file.read_text()
    expect(page.get_by_text("2 of 2 done")).to_be_visible()

    file.write_text("somebody was here\n")
    page.get_by_role("button", name="Roll back", exact=True).click()
    confirm(page, "Yes, roll it back")
    expect(page.get_by_text("“Overwrite and roll back” replaces these changes")).to_be_visible()
    expect(page).to_have_url(f"{stage.url}/runs/{proposal.proposal_id}")  # a reload loads the run itself
    page.reload()
    expect(page.get_by_text("1 file changed since the run.")).to_be_visible()
    page.get_by_role("button", name="Overwrite and roll back").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 file changed since the run would be overwritten.")
    confirm(page, "Yes, overwrite and roll back")
    expect(page.get_by_text("Rolled back: the files are as they were before the run.")).to_be_visible()
    assert file.read_text() == APP
    assert not (stage.root / "docs/rates.md").exists()
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "UNDONE"


@pytest.mark.req("PV-07")
def test_a_plan_with_folded_files_is_approved_by_a_tick_that_states_the_count_or_unfolded(
    stage: Stage, window: Open
) -> None:
    text = "".join(f"line {number}\n" for number in range(420))
    ticked, read = (
        stage.propose(
            name, created("a", f"docs/{name}.md", text + "EVIL\n"), created("b", f"docs/{name}-2.md", "SMALL\n")
        )
        for name in ("fold-one", "fold-two")
    )
    page = window("ida", "approver")
    page.goto(f"/inbox/plan/{ticked.proposal_id}")
    expect(page.get_by_text("EVIL")).to_be_hidden()
    expect(page.get_by_text("SMALL")).to_be_visible()
    expect(page.get_by_text("422 lines in 1 file are folded on this page")).to_be_visible()
    page.locator("details.file > summary").first.click()
    expect(page.get_by_text("EVIL")).to_be_visible()  # opened by hand, and the box is still needed
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("dialog")).to_have_count(0)  # the box must be ticked first
    page.get_by_label("Approve without “Unfold all files”").check()
    page.get_by_role("button", name="Approve").click()
    confirm(page, "Yes, approve")
    expect(page.get_by_text("Approved. The decision is recorded.")).to_be_visible()

    page.goto(f"/inbox/plan/{read.proposal_id}")
    page.locator("aside").get_by_role("link", name="unfold all files").click()
    expect(page.get_by_text("EVIL")).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)
    page.get_by_role("button", name="Approve").click()
    confirm(page, "Yes, approve")
    expect(page.get_by_text("Approved. The decision is recorded.")).to_be_visible()
    states = [stage.desk.plans.get(stage.agent, each.proposal_id).state for each in (ticked, read)]
    assert states == ["APPROVED", "APPROVED"]


def test_exceptions_are_ticked_and_a_changed_file_needs_a_new_preview(stage: Stage, window: Open) -> None:
    stage.write("src/app.py")
    proposal = stage.propose(
        "deploying",
        created("deploy", "scripts/deploy.sh", "#!/bin/sh\npassword = 'hunter2hunter2'\n"),
        replaced("limit", "src/app.py", "LIMIT = 10", "LIMIT = 20"),
    )
    page = window("bob", "approver")
    page.goto(f"/inbox/plan/{proposal.proposal_id}")
    assert "hunter2" not in page.content()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("dialog")).to_have_count(0)  # a box must be ticked first
    for box in page.get_by_role("checkbox").filter(visible=True).all():
        box.check()
    stage.write("src/app.py", APP + "# changed meanwhile\n")
    page.get_by_role("button", name="Approve").click()
    confirm(page, "Yes, approve")
    expect(page.get_by_role("alert").first).to_be_visible()
    expect(page.get_by_text("This preview is stale")).to_be_visible()
    expect(page.get_by_role("button", name="Compute again")).to_have_count(0)  # approvers cannot compute
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "PENDING"
    other = window("olga", "operator")
    other.goto(f"/inbox/plan/{proposal.proposal_id}")
    other.get_by_role("button", name="Compute again").click()
    confirm(other, "Yes, compute it")
    expect(other.get_by_text("The preview was computed again")).to_be_visible()
    expect(other.get_by_text("This preview is stale")).to_have_count(0)
    page.goto(f"/inbox/plan/{proposal.proposal_id}")
    for box in page.get_by_role("checkbox").filter(visible=True).all():
        box.check()
    page.get_by_role("button", name="Approve").click()
    confirm(page, "Yes, approve")
    expect(page.get_by_text("Approved. The decision is recorded.")).to_be_visible()
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "APPROVED"
    page.goto(f"/runs/{proposal.proposal_id}")
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)  # approvers cannot apply
    page.get_by_role("button", name="Cancel the plan").click()
    confirm(page, "Yes, cancel it")
    expect(page.locator("h1 + .row").get_by_text("void")).to_be_visible()


def test_a_stale_page_says_so_and_its_form_never_gets_the_digest_of_another_diff(stage: Stage, window: Open) -> None:
    stage.write("pay.txt", "to: ACME\namount: 10 two\n")
    proposal = stage.propose("pay", replaced("pay", "pay.txt", "two", "2"))
    page = window("eve", "approver")
    page.goto(f"/inbox/plan/{proposal.proposal_id}")
    expect(page.locator("#live")).to_have_text("Live")
    digest, approve = page.locator("input[name=digest]"), page.get_by_role("button", name="Approve")
    shown = digest.get_attribute("value")
    stage.write("pay.txt", "to: MALLORY\namount: 999999 two\n")
    # Any event makes the page load itself again.
    stage.propose("unrelated", created("other", "docs/other.md", "# Other\n"))
    expect(page.locator("[data-stale]")).to_contain_text("This page is out of date")
    expect(page.locator("[data-stale]")).to_be_visible()
    expect(page.locator(".diff").first).to_contain_text("ACME")
    assert digest.get_attribute("value") == shown
    expect(approve).to_be_disabled()
    page.locator("main").focus()
    page.keyboard.press("a")
    expect(page.locator("dialog[open]")).to_have_count(0)
    # The form sends the digest of what was shown, and the services refuse it even if the button is enabled.
    approve.evaluate("button => { button.disabled = false; }")
    approve.click()
    confirm(page, "Yes, approve")
    expect(page.get_by_role("alert").first).to_be_visible()
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "PENDING"
    page.goto(f"/inbox/plan/{proposal.proposal_id}")
    expect(page.locator(".diff").first).to_contain_text("ACME")
    expect(approve).to_be_disabled()
    stage.desk.plans.compute_preview(ADMIN, proposal.proposal_id)
    page.goto(f"/inbox/plan/{proposal.proposal_id}")
    expect(page.locator(".diff").first).to_contain_text("MALLORY")
    assert digest.get_attribute("value") != shown
    expect(approve).to_be_enabled()
    # Another person decides meanwhile. Then there is no form any more.
    stage.desk.plans.decide(ADMIN, proposal.proposal_id, approved=False, reason="no")
    expect(approve).to_have_count(0)
    expect(page.locator("h1 + .row").get_by_text("denied")).to_be_visible()
    expect(page.get_by_text("Denied: nothing was done: no")).to_be_visible()


def test_a_held_request_is_decided_and_one_whose_process_died_is_void(stage: Stage, window: Open) -> None:
    page = window("bob", "approver")
    held = stage.hold()
    page.goto("/inbox")
    page.get_by_role("link", name="POST https://shop.example/checkout").click()
    expect(page.locator("dl").get_by_text("49.90 EUR", exact=True)).to_be_visible()
    picture = page.locator("img.picture")
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 640
    page.get_by_label("Reason").fill("within the budget")
    page.get_by_role("button", name="Approve").click()
    confirm(page, "Yes, approve")
    expect(page.get_by_text("Approved. The decision is recorded.")).to_be_visible()
    found = stage.workspace.approvals.show(held.approval_id)
    assert (found.state, found.decided_by, found.reason) == ("APPROVED", "link:bob", "within the budget")

    other = stage.hold(agent="other-bot")
    page.goto(f"/inbox/request/{other.approval_id}")
    page.locator("main").focus()
    page.keyboard.press("d")
    confirm(page, "Yes, deny")
    expect(page.get_by_text("Denied. The decision is recorded, and nothing was done.")).to_be_visible()
    assert stage.workspace.approvals.show(other.approval_id).state == "DENIED"

    command = [sys.executable, "-c", DYING, str(stage.root), stage.environ["REMIT_STATE"]]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    page.goto(f"/inbox/request/{ran.stdout.strip()}")
    expect(page.get_by_text("Void: the process that held it is gone")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    page.goto("/inbox")
    expect(page.locator("tr", has_text="doomed").get_by_text("void", exact=True)).to_be_visible()


def test_a_call_is_labelled_as_one_and_its_page_shows_the_outcome_without_a_reload(stage: Stage, window: Open) -> None:
    @governed(stage.workspace, "crm.set_discount", risk="HIGH")
    def set_discount(customer: str, percent: int) -> str:
        """Set a customer's discount."""
        return f"{customer}: {percent}"

    token = stage.token("crm-bot", "call.crm.set_discount").text
    given: dict[str, Any] = {"token": token, "key": "one", "customer": "a", "percent": 5}
    waiting = set_discount.call(**given).waiting
    assert waiting is not None
    page = window("bob", "approver")
    page.goto("/inbox")
    expect(page.locator("li", has_text="crm.set_discount").get_by_text("Call", exact=True)).to_be_visible()
    page.goto(f"/inbox/request/{waiting.approval_id}")
    expect(page.locator("#live")).to_have_text("Live")
    stage.workspace.approvals.decide(waiting.approval_id, approved=True, who=Person("os:x"))
    expect(page.get_by_text("it is done when agent:crm-bot makes the same call again")).to_be_visible()
    # A call of another token under the same id does not change it.
    other = {**given, "token": stage.token("other-bot", "plan.propose").text}
    assert result_of(set_discount.call(**other)).status == "FAILURE"
    page.reload()
    expect(page.get_by_text("it is done when agent:crm-bot makes the same call again")).to_be_visible()
    expect(page.locator("#live")).to_have_text("Live")
    assert result_of(set_discount.call(**given)).status == "SUCCESS"
    expect(page.get_by_text("It succeeded: the effect took place.")).to_be_visible()
    page.goto("/inbox")
    closed = page.locator("tr", has_text="crm.set_discount")
    expect(closed.get_by_text("used", exact=True)).to_be_visible()
    page.goto("/ledger?kind=call.audit&actor=crm-bot")
    expect(page.locator("tbody tr")).to_contain_text("crm.set_discount: SUCCESS, effect done")


def test_recently_closed_requests_show_when_they_were_decided_withdrawn_or_applied(stage: Stage, window: Open) -> None:
    ended = {"done-deal": stage.approved("done-deal", created("x", "docs/done-deal.md", "x\n"))}
    assert stage.desk.plans.apply(ADMIN, ended["done-deal"].proposal_id, 20).state == "APPLIED"
    ended["taken-away"] = stage.propose("taken-away", created("x", "docs/away.md", "x\n"))
    stage.desk.plans.cancel(stage.agent, ended["taken-away"].proposal_id)
    page = window("vera", "viewer")
    page.goto("/inbox")
    for name, state in {"done-deal": "approved", "taken-away": "void"}.items():
        row = page.locator("tr", has_text=f"plan {name}")
        expect(row.get_by_text(state, exact=True)).to_be_visible()
        assert row.locator("time").count() == 1, name


def test_a_user_asks_in_the_console_and_the_page_of_the_goal_shows_its_status(stage: Stage, window: Open) -> None:
    page = window("mia", "operator", user=USER, tenant=TENANT)
    page.goto("/goals")
    page.get_by_label("Ask, as mia of acme").fill("make me a sandwich")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("h1 + .row").get_by_text("refused")).to_be_visible()
    page.goto("/goals")
    page.get_by_label("Ask, as mia of acme").fill("copy the form as invoice-9")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text("Nothing is done before you have answered.")).to_be_visible()
    page.get_by_label("In your own words").fill("no")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator("h1 + .row").get_by_text("refused")).to_be_visible()
    assert "/goals/one?" in page.url
    other = window("vera", "viewer")
    other.goto("/goals")
    assert other.get_by_role("button", name="Ask").count() == 0
    expect(other.get_by_role("link", name="make me a sandwich")).to_be_visible()


def test_a_user_confirms_a_goal_in_their_own_words_and_another_person_approves_it(stage: Stage, window: Open) -> None:
    mia = PersonCaller(Person("link:mia"), "operator", USER, TENANT)
    asked = stage.desk.goals.ask(mia, "copy the form as invoice-7", "en", None, None, 10)
    assert asked.waiting_for == "confirmation"
    page = window("mia", "operator", user=USER, tenant=TENANT)
    page.goto("/inbox")
    page.get_by_role("link", name="name = invoice-7").click()
    expect(page.locator("blockquote")).to_have_text("copy the form as invoice-7")
    expect(page.get_by_text("decided after your answer")).to_be_visible()
    page.get_by_label("In your own words").fill("hm")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("That is not a clear yes or no.")).to_be_visible()
    assert page.get_by_text("Your answer is recorded.").count() == 0
    page.get_by_label("In your own words").fill("yes")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("Your answer is recorded.")).to_be_visible()
    expect(page.get_by_text("for the approval of another person")).to_be_visible()

    approver = window("bob", "approver")
    approver.goto("/inbox")
    approver.get_by_role("link", name="name = invoice-7").click()
    expect(approver.get_by_text("copies-need-a-second-pair-of-eyes").first).to_be_visible()
    approver.get_by_role("button", name="Approve").click()
    confirm(approver, "Yes, approve")
    expect(approver.get_by_text("Approved. The decision is recorded.")).to_be_visible()
    assert approver.get_by_role("button", name="Continue").count() == 0  # only the user of the goal continues it
    expect(approver.locator("h1 + .row").get_by_text("approved")).to_be_visible()
    expect(approver.get_by_text("for the approval of another person")).not_to_be_visible()
    expect(approver.get_by_text(f"Nothing is done yet. {USER} has to continue the goal")).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("h1 + .row").get_by_text("done")).to_be_visible()
    assert (stage.base / "invoice-7.txt").exists()
    page.get_by_role("button", name="Roll back").click()
    confirm(page, "Yes, roll it back")
    expect(page.get_by_text("Nothing is done before you have answered.")).to_be_visible()  # a goal of its own
    with stage.workspace.store.reading() as connection:
        found = connection.one("SELECT actor FROM ledger_entries WHERE kind = 'agent.approval'", ())
    assert found is not None
    assert found[0] == "link:bob"
    approver.goto(f"/ledger/trace?tenant={TENANT}&correlation={asked.correlation_id}")
    expect(approver.get_by_text("Signed heads cover everything on this page.")).to_be_visible()
    expect(approver.locator(".tree").get_by_text("copy the form as invoice-7").first).to_be_visible()


def test_tokens_are_issued_and_revoked_simulations_promoted_and_retired_people_invited_and_removed(
    stage: Stage, window: Open
) -> None:
    page = window("ada")
    page.goto("/tokens")
    page.get_by_text("Issue a token").click()
    page.get_by_label("Agent").fill("night-bot")
    page.get_by_label("goal.ask").check()
    page.get_by_role("button", name="Issue").click()
    expect(page.get_by_role("alert")).to_contain_text("needs a user")
    assert page.get_by_label("goal.ask").is_checked()
    page.get_by_label("goal.ask").uncheck()
    page.get_by_label("plan.propose").check()
    page.get_by_role("button", name="Issue").click()
    text = page.locator("#token").inner_text()
    assert stage.workspace.tokens.verify(text).agent_id == "night-bot"
    page.locator("tr", has_text="night-bot").get_by_role("button", name="Revoke").click()
    confirm(page, "Yes, revoke it")
    expect(page.locator("tr", has_text="night-bot").get_by_text("revoked", exact=True)).to_be_visible()
    with pytest.raises(Exception, match="revoked"):
        stage.workspace.tokens.verify(text)
    assert text not in page.content()
    stage.workspace.tokens.issue(TokenRequest("day-bot", ("plan.propose",), TokenConstraints(), timedelta(hours=1)))
    stage.workspace.tokens.rotate_key(revoke=True)
    page.goto("/tokens")
    expect(page.locator("tr", has_text="day-bot").get_by_text("Key revoked")).to_be_visible()

    page.goto(f"/catalogue?tenant={TENANT}")
    page.get_by_role("link", name="See whether it works").click()
    expect(page.get_by_text('"are you there"')).to_be_visible()
    page.get_by_role("button", name="Promote").click()
    confirm(page, "Yes, promote it")
    expect(page.locator("h1 + .row").get_by_text("active")).to_be_visible()
    assert stage.workspace.promotion.states(TENANT)["ping"].state == "ACTIVE"
    page.get_by_role("button", name="Retire").click()
    confirm(page, "Yes, retire it")
    expect(page.get_by_text("Retired. Users can no longer request it.")).to_be_visible()

    page.goto("/people")
    page.get_by_text("Invite a person").click()
    page.get_by_label("Name").fill("grace")
    page.get_by_label("Role").select_option("viewer")
    page.get_by_role("button", name="Create link").click()
    link = page.locator("#link").inner_text()
    other = window()
    other.goto(link)
    other.get_by_role("button", name="Log in").click()
    expect(other.get_by_text("link:grace (viewer)")).to_be_visible()
    expect(other.locator("#live")).to_have_text("Live")
    page.locator("tr", has_text="link:grace").get_by_role("button", name="Remove").click()
    confirm(page, "Yes, remove")
    expect(page.get_by_text("Removed. All sessions of that person have ended.")).to_be_visible()
    expect(other.locator("#live")).to_have_text("Your session has ended: log in again")
    other.goto("/inbox")
    expect(other.get_by_role("heading", name="Log in")).to_be_visible()


def test_the_ledger_is_searched_drawn_and_verified(stage: Stage, window: Open) -> None:
    page = window("vera", "viewer")
    page.goto("/ledger")
    expect(page.locator("rect.block.head")).to_have_count(1)
    page.get_by_label("Kind begins with").fill("token.")
    page.get_by_label("Words").fill("release-bot")
    page.get_by_role("button", name="Search").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("token.issued")
    page.get_by_label("From (UTC)").fill("2999-01-01")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No matching entry")).to_be_visible()
    page.get_by_label("From (UTC)").fill("yesterday")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.goto("/ledger?kind=token.")
    page.locator("tbody a").first.click()
    expect(page.get_by_text("A signed head covers this entry, and its hash is correct.")).to_be_visible()
    page.goto("/ledger/verify")
    expect(page.get_by_text("No check has run since this server started.")).to_be_visible()
    page.goto("/ledger")
    page.get_by_role("button", name="Verify the chains").click()
    expect(page.get_by_text("The ledger is valid.")).to_be_visible()
    with page.expect_download() as exported:
        page.get_by_role("link", name="Export evidence of default").click()
    assert exported.value.suggested_filename == "evidence.jsonl"
    assert exported.value.path().read_bytes().startswith(b"{")
    page.goto("/levels")
    expect(page.get_by_role("heading", name="Service levels")).to_be_visible()
    expect(page.locator("rect.bar").first).to_be_attached()
