"""The rules that are asked of the running code: broken there, they are found too. And the script as a whole."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from remit.agent import gates, planner, recording
from remit.contracts.packets import ClarifyPacket, MissingSimulationPacket
from remit.contracts.simulation import Simulation
from scripts import agent_guardrails_alive as alive
from scripts.agent_guardrails_alive import check_alive
from scripts.agent_guardrails_sources import Violation
from tests.guardrails.copied import ROOT

SCRIPT: Final = ROOT / "scripts" / "check_agent_execution_core.sh"


def rules(found: Iterator[Violation]) -> set[str]:
    return {each.rule for each in found}


@pytest.mark.req("AC-16")
def test_the_code_as_it_is_passes() -> None:
    assert [str(each) for each in check_alive(ROOT)] == []


@pytest.mark.req("AC-16", "AC-04")
def test_a_missing_packet_that_is_let_through_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gates.decide
    for event in ("ACCESS_ALLOWED", "CLARIFIED"):

        def decide(given: gates.Evidence, event: Any = event) -> gates.GateVerdict:
            verdict = real(given)
            return replace(verdict, event=event) if isinstance(given.packet, MissingSimulationPacket) else verdict

        monkeypatch.setattr(gates, "decide", decide)
        assert rules(check_alive(ROOT)) == {"missing-dispatch"}


@pytest.mark.req("AC-16")
def test_a_question_that_is_let_through_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gates.decide

    def decide(given: gates.Evidence) -> gates.GateVerdict:
        verdict = real(given)
        return replace(verdict, event="ACCESS_ALLOWED") if isinstance(given.packet, ClarifyPacket) else verdict

    monkeypatch.setattr(gates, "decide", decide)
    assert rules(check_alive(ROOT)) == {"missing-dispatch"}


@pytest.mark.req("AC-16", "AC-14")
def test_a_gate_that_needs_no_way_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "_way_back", lambda *_: True)
    assert "rollback" in rules(check_alive(ROOT))


@pytest.mark.req("AC-16")
def test_contracts_that_take_anything_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[[Any], Simulation] = Simulation.from_tree
    monkeypatch.setattr(alive.Simulation, "from_tree", lambda tree: tree if "name" in tree["binding"] else real(tree))
    assert rules(check_alive(ROOT)) == {"tool-dispatch"}


@pytest.mark.req("AC-16")
def test_packets_that_need_no_proof_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = alive.FINDER_PACKET.from_tree

    def lax(tree: Any, **named: Any) -> Any:
        return real({"proof_ref": "x", **tree}, **named)

    monkeypatch.setattr(alive.FINDER_PACKET, "from_tree", lax)
    found = list(check_alive(ROOT))
    assert rules(iter(found)) == {"packet-proof"}
    assert {each.what for each in found} == {
        f"a {kind} packet without proof_ref is taken" for kind in ("match", "clarify", "refuse", "missing")
    }


@pytest.mark.req("AC-16", "AC-23")
def test_a_step_without_its_refs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = recording.step_row
    monkeypatch.setattr(
        recording, "step_row", lambda *given: replace(real(*given), artifact_fingerprint_bundle_ref=None)
    )
    assert rules(check_alive(ROOT)) == {"step-refs"}
    assert planner.FIRST_STEP


@pytest.mark.req("AC-16", "AC-14")
def test_a_shipped_catalogue_whose_way_back_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    text = """version: 1
simulations:
  - {id: copy-form, version: '1', title: Copy, impact: impactful, risk: LOW, access_action: copy, rollback: nobody,
     binding: {type: task, capability_id: FILE_COPY, inputs: {source_path: /srv/a, destination_path: /srv/b}}}
"""
    (tmp_path / "docs" / "catalogue.yaml").write_text(text)
    found = list(check_alive(tmp_path))
    assert [(each.rule, each.file) for each in found] == [("rollback", "docs/catalogue.yaml")]
    assert "does not have" in found[0].what


@pytest.mark.req("AC-16")
def test_the_script_fails_on_a_seed_and_passes_without(tmp_path: Path) -> None:
    root = tmp_path / "project"
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", SCRIPT, root], capture_output=True, text=True, check=False)

    assert (run().returncode, run().stderr) == (0, "")
    gate = root / "src" / "remit" / "agent" / "gates.py"
    gate.write_text(gate.read_text().replace('"ESCALATED", "SIMULATION_MISSING"', '"ACCESS_ALLOWED", "ACCESS_ALLOWED"'))
    failed = run()
    assert failed.returncode == 1
    assert "missing-dispatch: src/remit/agent/gates.py:" in failed.stderr
