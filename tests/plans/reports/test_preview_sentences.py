"""The sentences about a preview that the terminal and the console share."""

from typing import Any

import pytest

from remit.plans.reports.preview_sentences import describe_deadline, describe_kept_outputs, describe_undo
from tests.cli.test_plan_views import DIGEST, UNDO, previewed

COMPUTED = "2026-11-20T08:15:59Z"


@pytest.mark.parametrize(
    "changes, told",
    [
        ({}, f"{UNDO[:-1]} (1.2 KB)."),
        ({"backup_bytes": 0}, UNDO),
        ({"undo": ""}, ""),
        ({"would_end": "PARTIAL"}, f"{UNDO[:-1]} (1.2 KB)."),
        ({"would_end": "ROLLED_BACK"}, ""),
        ({"would_end": "FAILED", "doomed": True}, ""),
    ],
)
def test_what_can_be_undone_is_shown_only_if_a_change_would_stay(changes: dict[str, Any], told: str) -> None:
    assert describe_undo(previewed(**changes)) == told


def test_kept_outputs_are_counted_with_their_size() -> None:
    one = {"action_id": "a1", "path": "a.csv", "digest": DIGEST, "size": 1}
    assert describe_kept_outputs(previewed()) == ""
    assert describe_kept_outputs(previewed(outputs=[one])) == "1 file, 1 byte, until applied"
    two = [one, {**one, "path": "b.csv", "size": 14_000}]
    assert describe_kept_outputs(previewed(outputs=two)) == "2 files, 14.0 KB, until applied"


def test_a_preview_can_be_approved_until_it_or_the_time_for_the_decision_ends() -> None:
    document = previewed(expires_at=COMPUTED)
    assert describe_deadline(document) == "can be approved until 2026-11-20 08:15 UTC"
    assert describe_deadline(document, "2026-11-20T01:00:00Z") == "can be approved until 2026-11-20 01:00 UTC"
    assert describe_deadline(document, "2026-11-21T01:00:00Z") == "can be approved until 2026-11-20 08:15 UTC"
    assert describe_deadline(previewed()) == "", "an earlier version computed it"
    assert describe_deadline(previewed(expires_at=COMPUTED, doomed=True, would_end="FAILED")) == ""
