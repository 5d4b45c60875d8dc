"""No advice to repeat an effect that took place or may have taken place, in any interface."""

import ast
import importlib
import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from playwright.async_api import Error as PlaywrightError

import remit
from remit.browser.chromium.errors import translate_error
from remit.browser.recovery import RequestFate, build_interrupted
from remit.calls.errors import NEXT_STEPS
from remit.cli.goals.render import NEXT
from remit.contracts.goals.error_codes import USER_TEXT
from remit.mcp_server import summaries as words
from remit.mcp_server.tools.base import _UNEXPECTED
from remit.services.goals.answers import build_running_answer
from remit.web.console import outcomes

SOURCE: Final = Path(remit.__file__).parent
REPEAT: Final = re.compile(r"\b(again|retry|once more|another (key|id)|anew|repeat|begin again)\b", re.IGNORECASE)
NEGATED: Final = re.compile(r"\b(not|never|nobody|nothing|do not)\b", re.IGNORECASE)
MAY_BE_DONE: Final = frozenset({"IncompleteError", "AlreadyStartedError"})
"""Exceptions that say that an effect was begun, and not whether it is done."""
DONE_CODES: Final = ("SIMULATION_SUCCEEDED", "SIMULATION_FAILED", "STEP_TIMEOUT", "IDEMPOTENCY_VIOLATION")
DONE_STATES: Final = ("RUNNING", "UNFINISHED", "APPLIED", "PARTIAL", "FAILED", "NOT_VOUCHED_FOR")


def advice_to_repeat(text: str) -> list[str]:
    """The sentences that advise it. One that says not to do so is no such advice."""
    sentences = re.split(r"(?<=[.;:])\s+", text)
    return [each for each in sentences if REPEAT.search(each) and not NEGATED.search(each)]


class Told(NamedTuple):
    place: str
    step: str


def _text(node: ast.expr, module: str) -> str:
    """The text of an expression; the parts of it that are only known at run time are left out."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        return str(getattr(importlib.import_module(module), node.id, ""))
    return "".join(_text(part, module) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))


def _told_after_effects() -> list[Told]:
    """Every `next_step` in the source of an error whose class or reason says that the effect may be done."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        module = ".".join(("remit", *file.relative_to(SOURCE).with_suffix("").parts))
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            reasons = {part.attr for part in node.args if isinstance(part, ast.Attribute)}
            if ast.unparse(node.func) not in MAY_BE_DONE and "FATE_UNKNOWN" not in reasons:
                continue
            steps = [_text(keyword.value, module) for keyword in node.keywords if keyword.arg == "next_step"]
            found += [Told(f"{file.name}:{node.lineno}", step) for step in steps]
    return found


@pytest.mark.req("GW-07")
def test_no_error_whose_effect_may_be_done_advises_to_repeat_it() -> None:
    told = _told_after_effects()
    assert len(told) >= 7, told
    assert all(each.step for each in told), told
    assert {each.place: each.step for each in told if advice_to_repeat(each.step)} == {}


@pytest.mark.req("GW-07")
def test_no_words_of_an_interface_advise_to_repeat_what_is_or_may_be_done() -> None:
    table = {f"remit ask, {code}": NEXT.get(code, "") for code in DONE_CODES}
    table |= {f"user, {code}": USER_TEXT[code] for code in DONE_CODES}
    table |= {f"MCP plan, {state}": words._PROPOSALS[state] for state in DONE_STATES}  # noqa: SLF001
    table |= {f"call, {effect}": NEXT_STEPS[effect] for effect in ("done", "unknown")}
    table |= {f"goal, {number}": step for number, step in enumerate(build_running_answer("acme", "c", None).next)}
    table["MCP, unexpected"] = _UNEXPECTED.next_step
    table |= {f"console, {effect}": outcomes._EFFECTS[effect] for effect in ("done", "unknown")}  # noqa: SLF001
    for state in ("SENT", "UNKNOWN"):
        problem = build_interrupted(
            "a1", [RequestFate("POST https://shop.example/order", state, request_id="r1")]
        ).problem
        table[f"browser, {state}"] = problem.next_step
    for said in ("Page.click: Target page has been closed", "Page.click: Connection closed"):
        table[f"browser, {said}"] = translate_error(PlaywrightError(said), "click", 5).next_step
    assert {place: text for place, text in table.items() if advice_to_repeat(text)} == {}


@pytest.mark.parametrize(
    "text, advises",
    [
        ("Call it again under another key, once that is fixed.", True),
        ("Fix what stands in the way, then call again; or run: remit recover", True),
        ("Begin again.", True),
        ("It is not sent again. Look at the site before you ask for it anew.", True),
        ("Do not call it again: its effect took place.", False),
        ("It is not sent again. Look at the site itself.", False),
    ],
)
def test_advice_to_repeat_is_distinguished_from_a_warning(text: str, advises: bool) -> None:  # noqa: FBT001
    assert bool(advice_to_repeat(text)) is advises
