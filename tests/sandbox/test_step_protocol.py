"""What a child may say of its steps, in which order, and how long each may take: every row, without a process."""

from typing import Any

import pytest

from remit.core.errors import Reason
from remit.sandbox.results import reason_of
from remit.sandbox.step_protocol import Paces, ProtocolError
from tests.sandbox.stepping_host import said

ERROR = {"reason": "file_missing", "what": "it is gone", "where": "a.txt", "next_step": ""}


def hear(*messages: dict[str, Any], paces: tuple[float, ...] = (1.0, 2.0, 3.0)) -> Paces:
    heard = Paces(paces)
    for message in messages:
        heard.check_step({"kind": "step", **message}, 0.0)
    return heard


def test_what_is_agreed(subtests: pytest.Subtests) -> None:
    for phases in [
        ["begun", "staged", "done"],
        ["begun", "done"],
        ["begun", "failed"],
        ["begun", "staged", "failed"],
        ["begun", "skipped"],
        ["begun", "staged", "skipped"],
        ["skipped"],
        ["seen"],
        ["begun", "seen"],
        ["diff", "seen"],
        ["begun", "diff", "diff", "seen", "diff"],
    ]:
        with subtests.test(phases=phases):
            heard = hear(*(said(1, phase, **({"error": ERROR} if phase == "failed" else {})) for phase in phases))
            assert heard.running is None


def test_a_step_message_out_of_order_is_refused(subtests: pytest.Subtests) -> None:
    for phases in [
        ["begun", "begun"],
        ["staged"],
        ["done"],
        ["failed"],
        ["begun", "staged", "staged"],
        ["begun", "staged", "begun"],
        ["begun", "done", "done"],
        ["begun", "done", "failed"],
        ["begun", "failed", "done"],
        ["begun", "done", "begun"],
        ["begun", "done", "staged"],
        ["begun", "done", "skipped"],
        ["skipped", "begun"],
        ["skipped", "skipped"],
        ["seen", "seen"],
        ["seen", "begun"],
        ["finished"],
        [""],
    ]:
        with subtests.test(phases=phases):
            messages = [said(1, phase, **({"error": ERROR} if phase == "failed" else {})) for phase in phases]
            heard = hear(*messages[:-1])
            with pytest.raises(ProtocolError):
                heard.check_step({"kind": "step", **messages[-1]}, 0.0)


def test_a_step_that_the_order_does_not_have_is_not_taken(subtests: pytest.Subtests) -> None:
    for number in [3, -1, 10**9, True, False, 1.0, "1", None, [1]]:
        with subtests.test(number=number), pytest.raises(ProtocolError):
            hear({"number": number, "phase": "begun"})


@pytest.mark.parametrize("phase", [None, 1, ["begun"], {"begun": 1}])
def test_a_phase_that_is_no_word_is_not_taken(phase: Any) -> None:
    with pytest.raises(ProtocolError):
        hear({"number": 0, "phase": phase})


def test_an_order_without_paces_has_no_steps() -> None:
    with pytest.raises(ProtocolError):
        hear(said(0, "begun"), paces=())


@pytest.mark.parametrize(
    "error",
    [None, "gone", ["gone"], {**ERROR, "code": "2001"}, {**ERROR, "what": 7}, {**ERROR, "where": None}],
)
@pytest.mark.parametrize("phase, name", [("failed", "error"), ("seen", "problem")])
def test_an_error_of_another_shape_is_not_taken(error: Any, phase: str, name: str) -> None:
    heard = hear(said(0, "begun"))
    if phase == "seen" and error is None:
        assert heard.check_step({"kind": "step", **said(0, phase, problem=None)}, 0.0)["problem"] is None
        return
    with pytest.raises(ProtocolError):
        heard.check_step({"kind": "step", **said(0, phase, **{name: error})}, 0.0)


@pytest.mark.parametrize("phase, name", [("failed", "error"), ("seen", "problem")])
@pytest.mark.parametrize(
    "reason, heard_as",
    [
        ("file_missing", "file_missing"),
        ("edit_no_match", "edit_no_match"),
        ("timed_out", "effect_failed"),
        ("signature_invalid", "effect_failed"),
        ("because", "effect_failed"),
    ],
)
def test_a_step_fails_for_a_reason_that_is_the_childs_to_give(
    phase: str, name: str, reason: str, heard_as: str
) -> None:
    heard = hear(said(2, "begun"))
    message = heard.check_step(
        {"kind": "step", **said(2, phase, more=[1], **{name: {"reason": reason, "what": "x"}})}, 0.0
    )
    assert message == {
        "number": 2,
        "phase": phase,
        "more": [1],
        name: {"reason": heard_as, "what": "x", "where": "", "next_step": ""},
    }


@pytest.mark.req("EI-17")
@pytest.mark.parametrize(
    "reason",
    [
        *(Reason.PROTECTED, Reason.TIMED_OUT, Reason.CANCELLED, Reason.BACKUP_DAMAGED, Reason.BACKUP_MISSING),
        *(Reason.ROLLBACK_EXPIRED, Reason.ROLLBACK_FAILED),
    ],
)
def test_what_was_approved_or_kept_or_cancelled_is_not_the_childs_to_say(reason: Reason) -> None:
    assert reason_of(reason.value) is Reason.EFFECT_FAILED


@pytest.mark.parametrize("reason", [Reason.HASH_MISMATCH, Reason.DRIFTED, Reason.EDIT_AMBIGUOUS, Reason.RULE_FAILED])
def test_what_was_found_in_the_files_is(reason: Reason) -> None:
    assert reason_of(reason.value) is reason


@pytest.mark.req("EI-10")
def test_each_step_has_its_own_clock_from_its_beginning_until_it_is_staged() -> None:
    heard = Paces((1.0, 2.0))
    assert heard.left(100.0) is None
    heard.check_step({"kind": "step", **said(0, "begun")}, 10.0)
    assert (heard.running, heard.left(10.5), heard.breach(11.0)) == (0, 0.5, None)
    late = heard.breach(11.1)
    assert late is not None
    assert (late.reason, late.what) == (Reason.TIMED_OUT, "step 1 took longer than 1 seconds")
    heard.check_step({"kind": "step", **said(0, "diff")}, 11.1)
    assert heard.running == 0
    heard.check_step({"kind": "step", **said(0, "staged")}, 11.1)
    assert heard.breach(1_000.0) is None
    heard.check_step({"kind": "step", **said(1, "begun")}, 20.0)
    heard.check_step({"kind": "step", **said(0, "done")}, 21.0)
    assert heard.running == 1, "the end of another step does not stop this one's clock"
    assert heard.breach(22.1) is not None


def test_the_next_step_stops_the_clock_of_one_that_had_nothing_to_stage() -> None:
    heard = hear(said(0, "begun"), said(1, "begun"))
    assert heard.running == 1
    assert heard.left(0.0) == 2.0
