"""`remit approvals show` of a plan that was approved: what a person needs after `apply` was refused."""

from pathlib import Path

import pytest

from remit.authority import envelope
from remit.core.errors import Reason, RefusedError
from remit.plans import approval_checks
from remit.plans.apply import open_transactions
from remit.plans.model.remote_part import RESTORE_ROWS
from remit.plans.preview.inputs import RESTORE_FILE
from remit.plans.preview.kept_outputs import outputs_gone_error
from remit.plans.preview.store import preview_gone_error
from remit.services.plans.next_steps import advise_on_proposal
from tests.cli.conftest import Remit, remit
from tests.plans.project import plan_of, replace

__all__ = ["remit"]


def _approve_a_proposal(remit: Remit, project: Path) -> str:
    assert remit("init").code == 0
    (project / "a.txt").write_text("one\ntwo\n")
    made = remit("propose", "-", "--json", stdin=plan_of(replace("a", "a.txt"), plan_id="tidy"))
    name = str(made.document["proposal_id"])
    digest = remit("approvals", "show", name, "--json").document["preview"]["preview_digest"]
    assert remit("approvals", "approve", name, "--digest", digest, "--as", "Ada", "--reason", "fine").code == 0
    return name


def test_an_approved_plan_is_shown_with_its_envelope_and_the_command_that_applies_it(
    remit: Remit, tmp_path: Path
) -> None:
    name = _approve_a_proposal(remit, tmp_path / "project")
    view = remit("approvals", "show", name, "--json").document
    shown = remit("approvals", "show", name[:20]).out
    assert f"envelope  {view['proposal']['envelope_id']}" in shown
    assert f"until {view['proposal']['apply_until'][:19]}Z" in shown
    assert f"remit apply --proposal {name}" in shown
    assert (view["changed_since"], view["last_refusal"]) == ([], None)


def test_after_a_refused_apply_the_reason_the_file_and_the_next_step_are_shown(remit: Remit, tmp_path: Path) -> None:
    project = tmp_path / "project"
    name = _approve_a_proposal(remit, project)
    (project / "a.txt").write_text("one\ntwo\nthree\n")
    assert remit("apply", "--proposal", name).code == 2
    view = remit("approvals", "show", name, "--json").document
    assert [each["path"] for each in view["changed_since"]] == ["a.txt"]
    assert (view["last_refusal"]["reason"], view["last_refusal"]["where"]) == ("binding_mismatch", "a.txt")
    shown = remit("approvals", "show", name).out
    assert "changed   a.txt: this file was changed since the plan was approved" in shown
    assert "refused   " in shown
    assert f"remit apply --proposal {name}" in shown
    assert f"remit cancel {view['proposal']['envelope_id']}" in shown
    (project / "a.txt").write_text("one\ntwo\n")
    assert "changed   " not in remit("approvals", "show", name).out
    assert remit("apply", "--proposal", name).code == 0
    done = remit("approvals", "show", name)
    assert ("refused   " in done.out, f"envelope  {view['proposal']['envelope_id']}" in done.out) == (False, True)


def test_the_entries_of_a_refused_apply_are_shown_to_people_only(remit: Remit, tmp_path: Path) -> None:
    name = _approve_a_proposal(remit, tmp_path / "project")
    assert remit("approvals", "show", name, REMIT_AGENT="bot").code == 2


def test_a_refused_decision_about_a_plan_has_the_code_that_preview_has(remit: Remit, tmp_path: Path) -> None:
    assert remit("init").code == 0
    plan = plan_of(replace("a", "missing.txt"), plan_id="tidy")
    token = remit("token", "issue", "--sub", "bot", "--cap", "plan.propose").out.strip()
    name = str(remit("propose", "-", "--json", stdin=plan, REMIT_TOKEN=token).document["proposal_id"])
    assert "2001 FILE_NOT_FOUND" in remit("preview", "-", stdin=plan).out
    digest = remit("approvals", "show", name, "--json").document["preview"]["preview_digest"]
    refused = remit("approvals", "approve", name, "--digest", digest)
    assert "code:  2001 FILE_NOT_FOUND" in refused.err
    error = remit("approvals", "approve", name, "--digest", digest, "--json").document["error"]
    assert (error["reason"], error["code"], error["type"]) == ("file_missing", 2001, "FILE_NOT_FOUND")
    other = remit("approvals", "deny", "0192f0c1-2345-7abc-8def-0123456789ab")
    assert "code:  state_missing" in other.err


def test_after_a_changed_configuration_the_next_step_is_possible_for_a_proposal(remit: Remit, tmp_path: Path) -> None:
    name = _approve_a_proposal(remit, tmp_path / "project")
    config = tmp_path / "project/remit.yaml"
    config.write_text(config.read_text() + "\nlimits:\n  max_files: 7\n")
    envelope_id = remit("approvals", "show", name, "--json").document["proposal"]["envelope_id"]

    refused = remit("apply", "--proposal", name)

    assert (refused.code, "the configuration was changed" in refused.err) == (2, True)
    assert "approve it again" not in refused.err
    assert f"remit apply --proposal {name}" in refused.err
    assert f"remit cancel {envelope_id}" in refused.err
    assert "propose it again with another --key" in refused.err
    again = remit("approvals", "approve", name)
    assert f"Apply it: remit apply --proposal {name}. Or withdraw it: remit cancel {envelope_id}" in again.err


@pytest.mark.parametrize(
    "advice",
    [
        RESTORE_FILE,
        envelope._APPROVE_AGAIN,  # noqa: SLF001 - each text that lower packages have
        approval_checks._AGAIN,  # noqa: SLF001
        open_transactions._AGAIN,  # noqa: SLF001
        RESTORE_ROWS,
        outputs_gone_error("a.txt").next_step,
        preview_gone_error("sha256:0").next_step,
        "Preview the plan again, and approve it again if it is still wanted.",
    ],
)
@pytest.mark.parametrize("reason", [Reason.BINDING_MISMATCH, Reason.STATE_MISSING, Reason.EXPIRED])
def test_no_advice_about_a_proposal_says_to_approve_it_again(advice: str, reason: Reason) -> None:
    told = advise_on_proposal(RefusedError(reason, "why", next_step=advice), "PROPOSAL", "ENVELOPE").next_step
    assert "approve it again" not in told
    assert "remit preview" not in told
    assert "another" in told
