"""What `remit ledger show` says of the browser: which request, to which host, allowed by whom; nothing cut off."""

import json
from typing import Any

import pytest

from remit.ledger.entry import Entry
from remit.services.base.entry_text import render_meaning

ID = "0198aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee"
LONG = f"https://shop.example/{'a' * 150}"
MEANINGS: list[tuple[str, dict[str, Any], str]] = [
    (
        "approval.requested",
        {
            "approval_id": ID,
            "method": "POST",
            "url": LONG,
            "effect": "Buys tea.",
            "expires_at": "2026-01-01T00:10:00.0Z",
        },
        f"POST {LONG}, Buys tea, until 2026-01-01T00:10:00Z, approval request {ID}",
    ),
    ("approval.approved", {"approval_id": ID, "reason": "as agreed"}, f"by os:ada, as agreed, approval request {ID}"),
    ("approval.voided", {"approval_id": ID, "reason": "the page is gone"}, f"the page is gone, approval request {ID}"),
    (
        "browser.intent",
        {"preview": "Click the button 'Pay'", "consent": "token t-1"},
        "Click the button 'Pay', token t-1",
    ),
    ("browser.outcome", {"outcome": {"success": True, "output": {"url": LONG}}}, f"done, at {LONG}"),
    (
        "browser.outcome",
        {
            "outcome": {
                "success": False,
                "reason": "User denied",
                "error": {"code": "APPROVAL_DENIED", "message": "why"},
            }
        },
        "APPROVAL_DENIED: why",
    ),
    (
        "browser.outcome",
        {"outcome": {"success": False, "reason": "Domain not allowed", "error": {"code": "CONSTRAINT_VIOLATED"}}},
        "CONSTRAINT_VIOLATED: Domain not allowed",
    ),
    (
        "browser.action",
        {
            "action": "click",
            "target": LONG,
            "success": False,
            "code": "KERNEL_ERROR",
            "turned_away": [{"method": "GET", "url": "https://evil.example/", "why": "another host"}],
        },
        f"click {LONG}, KERNEL_ERROR, by agent os:ada, blocked: GET https://evil.example/ (another host)",
    ),
    (
        "browser_request.intent",
        {"preview": "Sends 1 field at shop.example: POST /pay.", "consent": f"approval {ID} by os:ada"},
        f"Sends 1 field at shop.example: POST /pay, approval {ID} by os:ada",
    ),
    (
        "browser_request.outcome",
        {"outcome": {"state": "UNKNOWN", "what": f"POST {LONG}", "approved_by": "os:ada", "problem": "no answer"}},
        f"POST {LONG}, unknown: it may have been sent, approved by os:ada, no answer",
    ),
    (
        "browser_request.refused",
        {"reason": "constraint_violated", "what": "Amount exceeds limit", "next_step": "79.90 EUR"},
        "constraint_violated: Amount exceeds limit; 79.90 EUR",
    ),
]


def entry(kind: str, payload: Any) -> Entry:
    return Entry("t", 1, ID, "2026-01-01T00:00:00Z", kind, "act-1", None, None, "os:ada", json.dumps(payload), "", "")


@pytest.mark.req("VX-10")
def test_an_entry_about_the_browser_can_be_read_in_full(subtests: pytest.Subtests) -> None:
    for kind, payload, meaning in MEANINGS:
        with subtests.test(kind):
            assert render_meaning(entry(kind, payload)) == meaning


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in MEANINGS}))
@pytest.mark.parametrize(
    "payload", [[], {}, {"outcome": 1}, {"outcome": {"error": 7, "output": []}}, {"turned_away": 3}]
)
def test_a_made_up_payload_breaks_nothing(kind: str, payload: Any) -> None:
    assert len(render_meaning(entry(kind, payload))) < 600


def test_a_very_long_value_is_cut() -> None:
    assert len(render_meaning(entry("approval.requested", {"effect": "x" * 5_000}))) < 600
