"""Every page: accessible in light and dark, readable at the width of a phone, and safe against text of others."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.web.console.conftest import Open
from tests.web.console.console_workspace import TENANT, USER, Stage, created
from tests.web.console.hostile import BIDI, MARKUP, Filled, fill

PHONE: ViewportSize = {"width": 360, "height": 740}
DESK: ViewportSize = {"width": 1280, "height": 800}
GRAVE = {"serious", "critical"}
ALL_RULES: dict[str, Any] = {"resultTypes": ["violations"]}
CONTRAST_ONLY = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}
ALIKE = {"search", "bad search", "404 of ours", "said", "closed request", "empty catalogue"}
"""Pages that look like others that axe checks."""


class Seen(NamedTuple):
    status: int
    findings: list[str]
    too_wide: int
    fired: Any
    unseen: bool
    text: str


@pytest.fixture(scope="module")
def filled(stage: Stage) -> Filled:
    return fill(stage)


@pytest.fixture(scope="module")
def walk(stage: Stage, filled: Filled, chromium: Browser) -> Iterator[dict[str, Seen]]:
    """Every page once. The browser ignores the content policy, so the results do not depend on it."""
    context = chromium.new_context(base_url=stage.url, bypass_csp=True, viewport=DESK)
    link = stage.workspace.people.invite("ada", "admin", actor="os:test", user=USER, tenant=TENANT)
    cookie = stage.workspace.people.redeem(link.code).cookie
    context.add_cookies([{"name": "remit_session", "value": cookie, "url": stage.url}])
    page = context.new_page()
    seen = {name: _look(page, path, with_axe=name not in ALIKE) for name, path in filled.paths.items()}
    seen["plan"].findings.extend(_look_at_dialogs(page, filled.paths["plan"]))
    yield seen
    context.close()


def _look(page: Page, path: str, *, with_axe: bool) -> Seen:
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="light")
    answer = page.goto(path)
    assert answer is not None
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    findings: list[str] = []
    if with_axe:
        page.evaluate(AXE_SCRIPT)  # once for both themes, because loading axe takes as long as a run
        findings += _grave(page, ALL_RULES)
        page.emulate_media(color_scheme="dark")
        findings += _grave(page, CONTRAST_ONLY)
    page.set_viewport_size(PHONE)
    width = page.evaluate("document.documentElement.scrollWidth")
    text = page.inner_text("body")
    # Remit isolates names that run from right to left: an opening mark and a closing one, with no mark between them.
    unseen = page.evaluate(
        r"""() => /[\u202a-\u202e\u2066-\u2069\u200b\x1b]/.test(
          (document.documentElement.textContent + document.title).replace(/\u2068[^\u2066-\u2069]*\u2069/g, ""))"""
    )
    return Seen(answer.status, findings, max(width - PHONE["width"], 0), _fired(page), unseen, text)


def _look_at_dialogs(page: Page, path: str) -> list[str]:
    findings = []
    page.goto(path)
    page.evaluate(AXE_SCRIPT)
    for key in ("?", "d"):
        page.locator("main").focus()
        page.keyboard.press(key)
        page.get_by_role("dialog").wait_for()
        findings += _grave(page, ALL_RULES)
        page.keyboard.press("Escape")
    return findings


def _grave(page: Page, options: dict[str, Any]) -> list[str]:
    found = page.evaluate("async options => (await axe.run(options)).violations", options)
    return [
        f"{each['id']} ({each['impact']}): {each['nodes'][0]['html'][:200]}"
        for each in found
        if each["impact"] in GRAVE
    ]


def _fired(page: Page) -> Any:
    return page.evaluate("window.__fired ?? null")


def test_axe_finds_nothing_serious_on_any_page_in_light_or_dark(walk: dict[str, Seen]) -> None:
    assert {name: seen.findings for name, seen in walk.items() if seen.findings} == {}


def test_every_page_exists_and_is_no_wider_than_a_phone(walk: dict[str, Seen]) -> None:
    expected = {"404": 404, "404 of ours": 404, "bad search": 400}
    assert {name: seen.status for name, seen in walk.items()} == {name: expected.get(name, 200) for name in walk}
    assert {name: seen.too_wide for name, seen in walk.items() if seen.too_wide} == {}


def test_text_of_others_never_becomes_markup_or_hides_anything_even_without_the_content_policy(
    walk: dict[str, Seen],
) -> None:
    assert {name: seen.fired for name, seen in walk.items() if seen.fired is not None} == {}
    assert [name for name, seen in walk.items() if seen.unseen] == []
    # The text is on the page. Otherwise the test tried nothing.
    for name in ("inbox", "plan", "request", "closed request", "runs", "run", "ledger"):
        assert "onerror=window.__fired=1" in walk[name].text, name
    for name in ("plan", "closed request", "request"):
        assert r"\u202egnp.exe" in walk[name].text, name
    assert "copy the form as invoice-7" in walk["trace"].text


def test_words_of_an_event_are_shown_as_text(stage: Stage, filled: Filled, window: Open) -> None:
    page = window("ada", bypass_csp=True)
    page.goto("/inbox")
    expect(page.locator("#live")).to_have_text("Live")
    stage.propose(f"late{MARKUP}", created("x", "docs/late.md", "late\n"), note=BIDI)
    expect(page.get_by_role("link", name="plan late")).to_be_visible()
    assert page.evaluate("window.__fired ?? null") is None
    assert filled.paths


def test_the_content_policy_stops_a_script_of_the_console_that_makes_markup(window: Open, stage: Stage) -> None:
    page = window("ada")
    page.goto("/inbox")
    tried = page.evaluate(
        "() => { try { document.body.innerHTML = '<img src=x onerror=window.__fired=1>'; return 'done'; }"
        " catch (problem) { return problem.name; } }"
    )
    assert tried == "TypeError"
    assert stage.url in page.url


def test_without_scripts_a_person_logs_in_reads_and_approves(stage: Stage, window: Open) -> None:
    page = window(java_script_enabled=False)
    code = stage.invite("nora").partition("#")[2]
    page.goto("/login")
    page.get_by_label("Code").fill(code)
    page.get_by_role("button", name="Log in").click()
    proposal = stage.propose("plain", created("x", "docs/plain.md", "plain\n"))
    page.goto("/inbox")
    page.get_by_role("link", name="plan plain").click()
    expect(page.locator(".diff .added")).to_contain_text("plain")
    page.get_by_label("Reason").fill("fine")
    page.get_by_role("button", name="Approve").click()
    # Without scripts the server asks for the confirmation.
    expect(page.get_by_role("heading", name="Approve this?")).to_be_visible()
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "PENDING"
    page.get_by_role("button", name="Yes, approve").click()
    expect(page.get_by_text("Approved. The decision is recorded.")).to_be_visible()
    decided = stage.desk.plans.get(stage.agent, proposal.proposal_id)
    assert (decided.state, decided.reason) == ("APPROVED", "fine")


def test_the_chosen_theme_is_stored_and_keys_can_be_turned_off(window: Open) -> None:
    page = window("ada", color_scheme="light")
    page.goto("/inbox")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark", exact=True).click()
    page.goto("/runs")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.keyboard.press("?")
    page.get_by_label("Turn these keys off in this browser").check()
    page.get_by_role("button", name="Close").click()
    page.goto("/inbox")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.tagName") == "BODY"
