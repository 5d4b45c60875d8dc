"""`remit ledger show`: the run behind a proposal, ids that can be copied, and who did it."""

import re
from pathlib import Path

from tests.cli.conftest import Remit, remit
from tests.plans.project import plan_of, replace

__all__ = ["remit"]


def _apply_a_proposal(remit: Remit, tmp_path: Path) -> tuple[str, str]:
    """Return the ids of an applied proposal and of its envelope."""
    assert remit("init").code == 0
    (tmp_path / "project/a.txt").write_text("one\ntwo\n")
    # An id that is derived from a key does not begin with the time, as all other ids do.
    made = remit("propose", "-", "--key", "k", "--json", stdin=plan_of(replace("a", "a.txt"), plan_id="tidy"))
    name = str(made.document["proposal_id"])
    digest = remit("approvals", "show", name, "--json").document["preview"]["preview_digest"]
    assert remit("approvals", "approve", name, "--digest", digest).code == 0
    assert remit("apply", "--proposal", name).code == 0
    return name, str(remit("approvals", "show", name, "--json").document["proposal"]["envelope_id"])


def _kinds(remit: Remit, correlation: str, *options: str) -> list[str]:
    told = remit("ledger", "show", "--correlation", correlation, "--json", *options)
    assert told.code == 0, told
    return [entry["kind"] for entry in told.document]


def test_a_proposal_is_followed_to_the_run_of_its_envelope(remit: Remit, tmp_path: Path) -> None:
    proposal, envelope = _apply_a_proposal(remit, tmp_path)
    of_run = ["envelope.issued", "plan.intent", "plan.noted", "plan.outcome"]
    assert _kinds(remit, envelope) == of_run
    kinds = _kinds(remit, proposal)
    assert kinds[0] == "proposal.made"
    assert [kind for kind in kinds if not kind.startswith("proposal.")] == of_run
    seqs = [entry["seq"] for entry in remit("ledger", "show", "--correlation", proposal, "--json").document]
    assert seqs == sorted(set(seqs))
    assert _kinds(remit, proposal, "--limit", "2") == kinds[-2:]
    assert f"The proposal's envelope is {envelope}" in remit("ledger", "show", "--correlation", proposal).out


def test_the_table_says_how_many_older_entries_it_leaves_out(remit: Remit, tmp_path: Path) -> None:
    proposal, _ = _apply_a_proposal(remit, tmp_path)
    total = len(remit("ledger", "show", "--json").document)
    for options, of_them in (((), total), (("--correlation", proposal), len(_kinds(remit, proposal)))):
        cut = remit("ledger", "show", *options, "--limit", "2")
        left = f"{of_them - 2} older entries are not shown. To show more: --limit {of_them}\n"
        assert (cut.code, cut.err) == (0, left), cut
        one = remit("ledger", "show", *options, "--limit", str(of_them - 1))
        assert "1 older entry is not shown." in one.err
        assert remit("ledger", "show", *options, "--limit", str(of_them)).err == ""
        assert remit("ledger", "show", *options, "--limit", "2", "--json").err == ""


def test_a_unique_part_of_an_id_is_enough(remit: Remit, tmp_path: Path) -> None:
    proposal, envelope = _apply_a_proposal(remit, tmp_path)
    assert _kinds(remit, proposal[:8]) == _kinds(remit, proposal)
    (shown,) = {
        cell
        for line in remit("ledger", "show", "--correlation", proposal, COLUMNS="120").out.splitlines()
        for cell in re.findall(r"\S+…", line)
        if cell.startswith(proposal[:8])
    }
    assert _kinds(remit, shown) == _kinds(remit, proposal), "the part that the table shows can be copied"
    assert _kinds(remit, envelope.rpartition("-")[2]) == _kinds(remit, envelope), "the name in `remit runs`"


def test_an_unknown_or_ambiguous_id_is_an_empty_list_with_a_reason_on_standard_error(
    remit: Remit, tmp_path: Path
) -> None:
    _, envelope = _apply_a_proposal(remit, tmp_path)
    for name, why in (("nothing-like-this", "has no correlation"), ("0", "whole id"), (envelope[:5], "whole id")):
        told = remit("ledger", "show", "--correlation", name, "--json")
        assert (told.code, told.document, why in told.err) == (0, [], True), told
        assert why in remit("ledger", "show", "--correlation", name).err


def test_the_table_names_the_actor(remit: Remit, tmp_path: Path) -> None:
    _apply_a_proposal(remit, tmp_path)
    token = remit("token", "issue", "--sub", "bot", "--cap", "plan.propose").out.strip()
    assert remit("propose", "-", stdin=plan_of(replace("b", "a.txt"), plan_id="more"), REMIT_TOKEN=token).code == 0
    shown = remit("ledger", "show", COLUMNS="200").out
    assert shown.splitlines()[0].split() == ["seq", "time", "kind", "actor", "correlation", "meaning"]
    assert re.search(r"proposal\.made +agent:bot ", shown)
