"""The page of a goal with several steps: the state of each, and an answer that counts for one step only."""

from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from remit.contracts.services.common import Decision, GoalAnswer
from tests.web.console.conftest import Open
from tests.web.console.console_workspace import ADMIN, TENANT, USER, Stage
from tests.web.console.hostile import MIA


def asked(stage: Stage, letter: str) -> GoalAnswer:
    return stage.desk.goals.ask(MIA, f"prepare {letter}-one and {letter}-two and {letter}-three", "en", None, None, 20)


def path_of(goal: GoalAnswer) -> str:
    return f"/goals/one?{urlencode({'tenant': TENANT, 'id': goal.correlation_id})}"


def step_ids(goal: GoalAnswer) -> list[str]:
    return [each.step_id for each in goal.steps.steps] if goal.steps is not None else []


@pytest.mark.req("AC-30")
def test_a_button_asks_once_more_names_its_step_and_never_answers_the_next_one(stage: Stage, window: Open) -> None:
    goal = asked(stage, "a")
    page = window("mia", "operator", user=USER, tenant=TENANT)
    page.goto(path_of(goal))
    words = page.locator(".steps .badge")
    expect(words).to_have_text(["waits for an answer", "not started", "not started"])
    expect(page.locator(".steps .facts dd")).to_have_text(["a-one", "a-two", "a-three"])
    page.get_by_role("button", name="yes", exact=True).dblclick()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Step 1 of 3")
    assert stage.desk.goals.get(MIA, TENANT, goal.correlation_id).event == "CONFIRMATION_REQUESTED"
    dialog.get_by_role("button", name="Answer “yes”").click()
    expect(words).to_have_text(["done", "waits for an answer", "not started"])
    assert (stage.base / "a-one.txt").exists()

    # The same form a second time, as from another tab: it is for the first step.
    cookie, csrf = (
        next(each["value"] for each in page.context.cookies() if each["name"] == "remit_session"),
        page.locator("input[name=csrf]").first.input_value(),
    )
    form = {"csrf": csrf, "kind": "confirmation", "tenant": TENANT, "id": goal.correlation_id, "answer": "yes"}
    first = step_ids(goal)[0]
    for fields in ({**form, "step": first}, {**form, "step": first, "pressed": "yes", "confirmed": "yes"}):
        again = stage.ask("POST", "/inbox/answer", urlencode(fields), Cookie=f"remit_session={cookie}")
        assert again.headers["location"].endswith("said=not_used"), again
    assert stage.ask("POST", "/inbox/answer", urlencode(form), Cookie=f"remit_session={cookie}").status == 400
    assert not (stage.base / "a-two.txt").exists()

    page.get_by_role("button", name="no", exact=True).click()
    expect(dialog).to_contain_text("Step 2 of 3")
    dialog.get_by_role("button", name="Answer “no”").click()
    expect(words).to_have_text(["rolled back", "refused", "not run"])
    expect(page.get_by_text("No effect remains.")).to_be_visible()
    assert not (stage.base / "a-one.txt").exists()


@pytest.mark.req("AC-30", "AC-33")
def test_the_inbox_names_the_step_and_the_whole_goal_is_rolled_back_from_its_page(stage: Stage, window: Open) -> None:
    goal = asked(stage, "b")
    for step in step_ids(goal)[:2]:
        stage.desk.goals.answer(MIA, goal.correlation_id, "yes", step=step)
    page = window("mia", "operator", user=USER, tenant=TENANT, java_script_enabled=False)
    page.goto(path_of(goal))
    page.get_by_role("button", name="yes", exact=True).click()
    expect(page.get_by_role("heading", name="Answer “yes”?")).to_be_visible()
    expect(page.locator("main")).to_contain_text("Step 3 of 3")
    page.get_by_role("button", name="Answer “yes”").click()
    words = page.locator(".steps .badge")
    expect(words).to_have_text(["done", "done", "waits for approval"])

    approver = window("bob", "approver")
    approver.goto("/inbox")
    approver.get_by_role("link", name="Step 3 of 3").click()
    expect(approver.locator("dd").filter(has_text="third_form, 3 of 3")).to_be_visible()
    approver.get_by_role("button", name="Approve").click()
    approver.get_by_role("dialog").get_by_role("button", name="Yes, approve").click()
    expect(approver.get_by_text("Approved. The decision is recorded.")).to_be_visible()

    before = stage.desk.goals.replay(MIA, TENANT, goal.correlation_id)
    page.reload()
    page.reload()
    assert stage.desk.goals.replay(MIA, TENANT, goal.correlation_id) == before  # to look runs nothing
    page.get_by_role("button", name="Continue").click()
    expect(words).to_have_text(["done", "done", "done"])
    expect(page.get_by_text("Every step was done.")).to_be_visible()
    page.get_by_role("button", name="Roll the whole goal back").click()
    expect(page.get_by_role("heading", name="Roll back this whole goal?")).to_be_visible()
    page.get_by_role("button", name="Yes, roll it back").click()
    page.get_by_role("button", name="yes", exact=True).click()
    page.get_by_role("button", name="Answer “yes”").click()
    expect(words).to_have_text(["done", "done", "its rollback waits"])  # each rollback has gates of its own
    waits = next(each for each in stage.desk.inbox.list_open(ADMIN) if each.id == goal.correlation_id)
    decision = Decision(approved=True, step=waits.step)
    stage.desk.inbox.decide(ADMIN, "goal", goal.correlation_id, decision, tenant=TENANT)
    page.reload()
    page.get_by_role("button", name="Continue").click()
    expect(words).to_have_text(["rolled back", "rolled back", "rolled back"])
    assert [each for each in ("one", "two", "three") if (stage.base / f"b-{each}.txt").exists()] == []
