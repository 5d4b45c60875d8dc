"""The rules that are asked of the running code: broken there, they are found too. And the script as a whole."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from remit.contracts.goals.packets import FINDER_PACKET, ClarifyPacket, MissingSimulationPacket
from remit.contracts.goals.simulation import Simulation
from remit.goals import gates, recording
from scripts.agent_guardrails import main
from scripts.agent_guardrails_alive import check_running_code
from scripts.agent_guardrails_sources import Violation
from tests.guardrails.project_copy import ROOT, Copied

SCRIPT: Final = ROOT / "scripts" / "check_agent_execution_core.sh"


def rules(found: Iterator[Violation]) -> set[str]:
    return {each.rule for each in found}


@pytest.mark.req("AC-16")
def test_the_code_as_it_is_passes() -> None:
    assert [str(each) for each in check_running_code(ROOT)] == []


@pytest.mark.req("AC-16", "AC-04")
def test_a_missing_packet_that_is_let_through_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gates.decide
    for event in ("ACCESS_ALLOWED", "CLARIFIED"):

        def decide(given: gates.Evidence, event: Any = event) -> gates.GateVerdict:
            verdict = real(given)
            return replace(verdict, event=event) if isinstance(given.packet, MissingSimulationPacket) else verdict

        monkeypatch.setattr(gates, "decide", decide)
        assert rules(check_running_code(ROOT)) == {"missing-dispatch"}


@pytest.mark.req("AC-16")
def test_a_question_that_is_let_through_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gates.decide

    def decide(given: gates.Evidence) -> gates.GateVerdict:
        verdict = real(given)
        return replace(verdict, event="ACCESS_ALLOWED") if isinstance(given.packet, ClarifyPacket) else verdict

    monkeypatch.setattr(gates, "decide", decide)
    assert rules(check_running_code(ROOT)) == {"missing-dispatch"}


@pytest.mark.req("AC-16", "AC-14")
def test_a_gate_that_requires_no_rollback_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gates._rollback_entry  # noqa: SLF001 - the rule is broken where it stands
    monkeypatch.setattr(gates, "_rollback_entry", lambda given, known: real(given, known) or known.find("look"))
    assert "rollback" in rules(check_running_code(ROOT))


@pytest.mark.req("AC-16", "AC-29", "AC-32")
def test_steps_that_no_person_promoted_or_that_have_no_rollback_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(gates, "packet_problem", lambda *_: "")
        found = list(check_running_code(ROOT))
    assert rules(iter(found)) == {"sequence"}
    assert any("are reordered" in each.what for each in found)
    monkeypatch.setattr(gates, "_needs_rollback", lambda target: gates.needs_confirmation(target.simulation))
    assert rules(check_running_code(ROOT)) == {"rollback"}


@pytest.mark.req("AC-16")
def test_contracts_that_take_anything_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[[Any], Simulation] = Simulation.from_tree
    monkeypatch.setattr(Simulation, "from_tree", lambda tree: tree if "name" in tree["binding"] else real(tree))
    assert rules(check_running_code(ROOT)) == {"tool-dispatch"}


@pytest.mark.req("AC-16")
def test_packets_that_need_no_proof_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = FINDER_PACKET.from_tree

    def lax(tree: Any, **named: Any) -> Any:
        return real({"proof_ref": "x", **tree}, **named)

    monkeypatch.setattr(FINDER_PACKET, "from_tree", lax)
    found = list(check_running_code(ROOT))
    assert rules(iter(found)) == {"packet-proof"}
    assert {each.what for each in found} == {
        f"a {kind} packet without proof_ref is accepted" for kind in ("match", "clarify", "refuse", "missing")
    }


@pytest.mark.req("AC-16", "AC-23")
def test_a_step_without_its_refs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = recording.step_row
    monkeypatch.setattr(
        recording, "step_row", lambda *given: replace(real(*given), artifact_fingerprint_bundle_ref=None)
    )
    assert rules(check_running_code(ROOT)) == {"step-refs"}


@pytest.mark.req("AC-16", "AC-14")
def test_a_shipped_catalogue_whose_rollback_is_missing_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    text = """version: 1
simulations:
  - {id: copy-form, version: '1', title: Copy, impact: impactful, risk: LOW, access_action: copy, rollback: nobody,
     binding: {type: task, capability_id: FILE_COPY, inputs: {source_path: /srv/a, destination_path: /srv/b}}}
"""
    (tmp_path / "docs" / "catalogue.yaml").write_text(text)
    found = list(check_running_code(tmp_path))
    assert [(each.rule, each.file) for each in found] == [("rollback", "docs/catalogue.yaml")]
    assert "does not have" in found[0].what


@pytest.mark.req("AC-16")
def test_the_script_fails_on_a_seed(tmp_path: Path) -> None:
    root = Copied(tmp_path / "project").root
    gate = root / "src" / "remit" / "goals" / "gates.py"
    gate.write_text(gate.read_text().replace('"ESCALATED", "SIMULATION_MISSING"', '"ACCESS_ALLOWED", "ACCESS_ALLOWED"'))
    failed = subprocess.run(["sh", SCRIPT, root], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "missing-dispatch: src/remit/goals/gates.py:" in failed.stderr


@pytest.mark.req("AC-16")
def test_the_whole_check_passes_on_the_code_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(ROOT)]) == 0
    assert capsys.readouterr().out == "agent guardrails: 10 rules, 0 violations\n"


@pytest.mark.req("AC-16")
def test_other_code_than_that_of_the_root_is_not_asked(tmp_path: Path) -> None:
    copy = Copied(tmp_path / "project").root
    with pytest.raises(SystemExit, match="remit comes from"):
        main(["--root", str(copy)])


def test_make_check_runs_the_script() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    assert "check-agent" in next(line for line in lines if line.startswith("CHECKS :="))
    assert lines[lines.index("check-agent: $(DEV)") + 1] == "\t@sh scripts/check_agent_execution_core.sh"
