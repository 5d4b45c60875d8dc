"""Each of the seven violations, planted in several shapes in a copy of the sources, is found under its own name."""

import json
from typing import Final

import pytest

from scripts.agent_guardrails_sources import RULES, Violation
from tests.guardrails.copied import Copied

Edit = tuple[str, str, str]
END: Final = ""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Copied:
    return Copied(tmp_path_factory.mktemp("copied"))


BYPASS: Final[dict[str, Edit]] = {
    "imports a door": ("agent/core.py", END, "from remit.tasks import Tasks\n"),
    "imports an effect": ("agent/planner.py", END, "import remit.effects.files as harmless\n"),
    "imports in a function": ("agent/gates.py", END, "def f():\n    from remit.plans import Plans\n"),
    "imports relatively": ("agent/gates.py", END, "from ..kernel import kernel\n"),
    "imports a whole room": ("agent/core.py", END, "from remit import browsing\n"),
    "imports everything": ("agent/core.py", END, "from remit.doors.reading import *\n"),
    "imports the executor": ("agent/planner.py", END, "from remit.agent.simulation import SimulationDoor\n"),
    "imports the hands": ("agent/core.py", END, "from remit.agent.hands import Hands\n"),
    "imports the road": ("agent/core.py", END, "from remit.road import travel\n"),
    "imports promotion": ("agent/core.py", END, "from remit.promotion import Promotion\n"),
    "starts a process": ("agent/core.py", END, "import subprocess\n"),
    "opens a socket": ("agent/finder.py", END, "from socket import create_connection\n"),
    "loads by name": ("agent/core.py", END, "import importlib\n"),
    "asks for an operator": ("agent/core.py", END, "from operator import methodcaller\n"),
    "takes a module out of another": ("agent/catalogue.py", END, "from pathlib import os as paths\n"),
    "takes one by a dot": ("agent/catalogue.py", END, "import pathlib\npathlib.os.system('x')\n"),
    "takes one by getattr": ("agent/kept.py", END, "getattr(threading, '_' + 'sys')\n"),
    "sets itself off": ("goals.py", END, "threading.Timer(60, print).start()\n"),
    "uses __import__": ("agent/core.py", END, "t = __import__('remit.tasks')\n"),
    "evaluates": ("agent/core.py", END, "eval('1')\n"),
    "moves the hands": ("agent/core.py", END, "def f(x):\n    return x.hands.run({}, 1.0)\n"),
    "runs what was made ready": ("agent/planner.py", END, "def f(x):\n    return x.prepare(1, 2, 3)\n"),
    "moves them by a written name": ("agent/core.py", END, "def f(x):\n    return getattr(x, 'ru' + 'n')()\n"),
    "moves them by a made-up name": ("agent/core.py", END, "def f(x, n):\n    return getattr(x, n)()\n"),
    "gets at them by __dict__": ("agent/core.py", END, "def f(x):\n    return x.__dict__['door']\n"),
    "renames getattr": ("agent/core.py", END, "look = getattr\n"),
    "dispatches twice": ("agent/core.py", END, "def f(x, e):\n    x.executor.dispatch(e)\n"),
    "dispatches elsewhere": ("agent/recording.py", END, "def f(x, e):\n    x.dispatch(e)\n"),
    "dispatches by its caller": ("goals.py", END, "def f(x, e):\n    send = x.executor.dispatch\n    send(e)\n"),
    "dispatches in another room": ("workspace.py", END, "def f(goals, e):\n    goals.executor.dispatch(e)\n"),
    "makes a second executor": (
        "workspace.py",
        END,
        "def f(SimulationExecutor):\n    return SimulationExecutor(1, 2)\n",
    ),
    "makes other hands": ("goals.py", END, "def f(GoalHands):\n    return GoalHands(1)\n"),
    "lets the rules reach a task": ("goal_rules.py", END, "from remit.tasks import Tasks\n"),
}

DIRECT_WRITE: Final[dict[str, Edit]] = {
    "inserts": ("agent/core.py", END, "S = 'INSERT INTO orders VALUES (1)'\n"),
    "inserts in small letters": ("agent/core.py", END, "S = 'insert  into orders values (1)'\n"),
    "updates by an f-string": ("agent/core.py", END, "def f(t):\n    return f'UPDATE {t} SET paid = 1'\n"),
    "deletes in two pieces": ("agent/core.py", END, "S = 'DELETE ' + 'FROM orders'\n"),
    "drops by a template": ("agent/core.py", END, "S = 'DROP TABLE %s' % 'orders'\n"),
    "alters by a join": ("agent/core.py", END, "S = ' '.join(['ALTER', 'TABLE', 'orders'])\n"),
    "grants": ("agent/core.py", END, "S = 'GRANT ALL ON orders TO mia'\n"),
    "writes in the goals": ("goals.py", END, "S = 'TRUNCATE orders'\n"),
    "executes": ("agent/core.py", END, "def f(c, s):\n    c.execute(s)\n"),
    "executes by its name": ("agent/core.py", END, "def f(c, s):\n    getattr(c, 'execute')(s)\n"),
    "asks out of sight": ("agent/core.py", END, "def f(c, verb):\n    list(c.rows(f'{verb} FROM orders'))\n"),
    "runs a script": ("goal_hands.py", END, "def f(c, s):\n    c.script(s)\n"),
    "inserts a row": ("agent/core.py", END, "def f(batch, s):\n    batch.insert(s, ())\n"),
    "appends a row past its table": ("agent/core.py", END, "def f(batch, e):\n    batch.append_for_row(e)\n"),
    "connects": ("agent/core.py", END, "def f(x):\n    return x.store.connect()\n"),
    "imports a database": ("agent/core.py", END, "import sqlite3\n"),
    "imports a table of the store": ("agent/core.py", END, "from remit.store.approvals import *\n"),
    "imports grants": ("goals.py", END, "import remit.store.grants\n"),
    "imports another writer": ("agent/core.py", END, "from remit.ledger.projections import rebuild\n"),
    "moves a step elsewhere": (
        "agent/core.py",
        END,
        "from remit.ledger.projections import append_step as note\nnote(1)\n",
    ),
    "appends an event of its own": ("agent/core.py", END, "E = Event('t', 'task.done', 'c', {})\n"),
    "appends one elsewhere": (
        "agent/planner.py",
        END,
        "from remit.ledger.entry import Event as E\nE(1, 'agent.refused')\n",
    ),
    "opens a file": ("agent/core.py", END, "def f(p):\n    open(p, 'w')\n"),
    "writes a file": ("agent/catalogue.py", END, "def f(p: Path):\n    p.write_text('x')\n"),
    "replaces a path": ("agent/catalogue.py", END, "def f(a: Path, b: Path):\n    a.replace(b)\n"),
    "replaces a file": ("agent/core.py", END, "from os import replace\n"),
    "removes a folder": ("goals.py", END, "import shutil as files\n"),
    "writes a transcript": ("agent/outcomes.py", END, "def f(x):\n    x.transcript.add('done')\n"),
    "names a transcript's table": ("agent/core.py", END, "T = 'conversation_ledger'\n"),
}

TOOL_DISPATCH: Final[dict[str, Edit]] = {
    "makes an envelope": ("agent/core.py", END, "def f():\n    return DispatchEnvelope(simulation_id='send-mail')\n"),
    "under another name": (
        "goals.py",
        END,
        "from remit.contracts.dispatch import DispatchEnvelope as Note\ndef f():\n    return Note(simulation_id='x')\n",
    ),
    "by an assignment": ("agent/core.py", END, "Note = DispatchEnvelope\ndef f():\n    return Note()\n"),
    "by its module": ("agent/gates.py", END, "import remit.contracts.dispatch as d\ne = d.DispatchEnvelope()\n"),
    "by getattr": (
        "agent/gates.py",
        END,
        "import remit.contracts.dispatch as d\ne = getattr(d, 'Dispatch' + 'Envelope')()\n",
    ),
    "past its checks": ("agent/core.py", END, "def f(e):\n    return e.model_copy(update={'simulation_id': 'x'})\n"),
    "without any": ("agent/core.py", END, "def f():\n    return DispatchEnvelope.model_construct(simulation_id='x')\n"),
    "read from a tree of its own": (
        "agent/core.py",
        "DispatchEnvelope.from_tree(tree,",
        "DispatchEnvelope.from_tree({**tree, 'simulation_id': 'send-mail'},",
    ),
    "read after a change": (
        "agent/core.py",
        "        outcome = self.executor.dispatch(",
        "        tree = dict(tree, simulation_id='send-mail')\n        outcome = self.executor.dispatch(",
    ),
    "read elsewhere": ("goals.py", END, "from remit.contracts.dispatch import DispatchEnvelope as D\nD.parse(b'{}')\n"),
    "another id": (
        "agent/planner.py",
        "simulation_id=_packet(evidence).candidates[0].simulation_id",
        "simulation_id=step.access_action",
    ),
    "the second candidate": ("agent/planner.py", "candidates[0].simulation_id", "candidates[-1].simulation_id"),
    "ranked again": (
        "agent/gates.py",
        "first, *others = packet.candidates",
        "first, *others = sorted(packet.candidates, key=lambda one: one.score)",
    ),
    "a candidate of its own": (
        "agent/core.py",
        END,
        "from remit.contracts.packets import Candidate\nC = Candidate(simulation_id='x')\n",
    ),
    "a binding to a tool": ("contracts/simulation.py", "| UndoBinding, Field(", "| UndoBinding | ToolBinding, Field("),
    "a binding by another word": ("contracts/simulation.py", 'type: Literal["task"]', 'type: Literal["task", "tool"]'),
    "a binding by any word": ("contracts/simulation.py", 'type: Literal["undo"]', "type: str"),
    "an action without a door": (
        "agent/binding.py",
        "BoundAction = TaskAction | PlanAction",
        "BoundAction = ToolAction | TaskAction | PlanAction",
    ),
}

ROLLBACK: Final[dict[str, Edit]] = {
    "the gate is gone": (
        "agent/gates.py",
        'return GateVerdict("REFUSED", "ROLLBACK_PLAN_MISSING", entry)',
        "pass",
    ),
    "the gate asks less": (
        "agent/gates.py",
        "if needs_confirmation(entry.simulation) and not _way_back(",
        "if entry.simulation.risk == 'HIGH' and not _way_back(",
    ),
    "fewer are impactful": (
        "agent/gates.py",
        'return simulation.impact != "read_only"',
        'return simulation.impact == "irreversible"',
    ),
    "a simulation in the code": (
        "workspace.py",
        END,
        "DEMO = {'id': 'pay', 'impact': 'irreversible', 'access_action': 'pay', 'binding': {'type': 'task'}}\n",
    ),
}

MISSING_DISPATCH: Final[dict[str, Edit]] = {
    "it is let through": ("agent/gates.py", '"ESCALATED", "SIMULATION_MISSING"', '"ACCESS_ALLOWED", "ACCESS_ALLOWED"'),
    "it is matched": ("agent/gates.py", 'return GateVerdict("ESCALATED", "SIMULATION_MISSING")', "pass"),
    "it is matched sometimes": (
        "agent/gates.py",
        "if isinstance(packet, MissingSimulationPacket):",
        "if isinstance(packet, MissingSimulationPacket) and evidence.planned is None:",
    ),
    "its branch is gone": (
        "agent/gates.py",
        "    if isinstance(packet, MissingSimulationPacket):\n        return GateVerdict(",
        "    if False:\n        return GateVerdict(",
    ),
    "escalated counts as on its way": (
        "agent/core.py",
        'frozenset({"ACCESS_ALLOWED",',
        'frozenset({"ESCALATED", "ACCESS_ALLOWED",',
    ),
    "any event dispatches": (
        "agent/gates.py",
        'return self.event == "ACCESS_ALLOWED"',
        'return self.event != "REFUSED"',
    ),
    "the core does not look": (
        "agent/core.py",
        "            if history.event in ON_ITS_WAY:\n                return self._dispatched",
        "            if history.last is not None:\n                return self._dispatched",
    ),
    "the core does not look at its verdict": (
        "agent/core.py",
        "if made.verdict.dispatches:",
        "if made.ref:",
    ),
    "the core hands over another decision": (
        "agent/core.py",
        "return self._dispatched(goal, made.ref)",
        "return self._dispatched(goal, history.decision_ref)",
    ),
    "a verdict of its own": (
        "agent/planner.py",
        END,
        "def f(GateVerdict):\n    return GateVerdict('ACCESS_ALLOWED', 'x')\n",
    ),
    "an envelope without a verdict": ("agent/decisions.py", "if verdict.dispatches and step", "if step"),
    "a step goes on after it": (
        "ledger/projections.py",
        '"ESCALATED": frozenset(),',
        '"ESCALATED": frozenset({"PLANNED"}),',
    ),
}

PACKET_PROOF: Final[dict[str, Edit]] = {
    **{
        f"{name} {how}": ("contracts/packets.py", f"    {name}: Identifier\n", line)
        for name in (
            "packet_id",
            "correlation_id",
            "catalog_snapshot_ref",
            "finder_version",
            "proof_ref",
            "idempotency_key",
        )
        for how, line in (
            ("has a default", f'    {name}: Identifier = "none"\n'),
            ("may be null", f"    {name}: Identifier | None\n"),
            ("is gone", ""),
        )
    },
    "a kind that is no packet": ("contracts/packets.py", "class RefusePacket(Packet)", "class RefusePacket(Contract)"),
    "a kind that knows better": (
        "contracts/packets.py",
        '    packet_type: Literal["missing"]\n',
        '    packet_type: Literal["missing"]\n    proof_ref: str = ""\n',
    ),
    "a fifth kind": (
        "contracts/packets.py",
        "    SimulationMatchPacket | ClarifyPacket",
        "    Hint | SimulationMatchPacket | ClarifyPacket",
    ),
}

STEP_REFS: Final[dict[str, Edit]] = {
    "an envelope without a policy": (
        "contracts/dispatch.py",
        "policy_snapshot_ref: Identifier\n",
        "policy_snapshot_ref: Identifier | None = None\n",
    ),
    "an envelope without artifacts": ("contracts/dispatch.py", "    artifact_fingerprint_bundle_ref: Identifier\n", ""),
    "a step without a policy": (
        "contracts/goal.py",
        "policy_snapshot_version: Identifier\n",
        'policy_snapshot_version: Identifier = "latest"\n',
    ),
    "a decision without a policy": (
        "agent/decisions.py",
        "policy_snapshot_ref: str\n",
        "policy_snapshot_ref: str | None = None\n",
    ),
    "a row that is not told": (
        "agent/recording.py",
        "        artifact_fingerprint_bundle_ref=record.artifact_fingerprint_bundle_ref,\n",
        "",
    ),
    "a row that is told nothing": (
        "agent/recording.py",
        "policy_snapshot_ref=record.policy_snapshot_ref",
        "policy_snapshot_ref=None",
    ),
    "a fixed policy": (
        "agent/planner.py",
        "policy_snapshot_version=evidence.policy.ref",
        'policy_snapshot_version="1"',
    ),
    "a table without the column": (
        "ledger/agent_rows.py",
        "    policy_snapshot_ref: str | None = None\n",
        "",
    ),
}

SEEDS: Final = {
    "bypass": BYPASS,
    "direct-write": DIRECT_WRITE,
    "tool-dispatch": TOOL_DISPATCH,
    "rollback": ROLLBACK,
    "missing-dispatch": MISSING_DISPATCH,
    "packet-proof": PACKET_PROOF,
    "step-refs": STEP_REFS,
}


def test_every_rule_has_a_seed() -> None:
    assert set(SEEDS) == set(RULES)
    assert len(RULES) == 7


@pytest.mark.req("AC-16")
def test_the_sources_as_they_are_pass(copied: Copied) -> None:
    assert [str(violation) for violation in copied.found()] == []


@pytest.mark.req("AC-16")
@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_seeded_violation_of_each_kind_is_found(copied: Copied, rule: str) -> None:
    missed = {}
    for name, (file, old, new) in SEEDS[rule].items():
        found = copied.with_edit(file, old, new, rule)
        if not any(each.rule == rule and each.file == f"src/remit/{file}" for each in found):
            missed[name] = [str(each) for each in found]
    assert missed == {}


@pytest.mark.req("AC-16")
def test_a_violation_says_rule_file_line_and_next_step(copied: Copied) -> None:
    text = (copied.root / "src/remit/agent/core.py").read_text()
    found = copied.with_edit("agent/core.py", END, "import subprocess\n")
    assert [(one.rule, one.file, one.line) for one in found] == [
        ("bypass", "src/remit/agent/core.py", text.count("\n") + 1)
    ]
    shown = str(found[0])
    assert shown.startswith("bypass: src/remit/agent/core.py:")
    assert "subprocess" in shown
    assert found[0].next_step in shown


SHOWN: Final = {
    "id": "pay",
    "impact": "side_effecting",
    "access_action": "pay",
    "binding": {"type": "task", "capability_id": "X", "inputs": {}},
}


@pytest.mark.req("AC-16", "AC-14")
def test_a_shown_catalogue_without_a_way_back_is_found(copied: Copied) -> None:
    def rules(file: str, **changes: object) -> list[str]:
        catalogue = json.dumps({"version": 1, "simulations": [{**SHOWN, **changes}]})
        text = f"# How\n\n```yaml\n{catalogue}\n```\n" if file.endswith(".md") else catalogue
        found: list[Violation] = copied.with_file(file, text)
        assert all(each.file == file for each in found)
        return [each.rule for each in found]

    for file in ("docs/how-to/pay.md", "docs/pay.yaml", "examples/pay.json"):
        assert rules(file) == ["rollback"]
        assert rules(file, rollback=None) == ["rollback"]
        assert rules(file, rollback="pay") == ["rollback"]
        assert rules(file, rollback="refund") == []
        assert rules(file, impact="read_only") == []
        assert rules(file, impact="read_only", binding={"type": "tool"}) == ["tool-dispatch"]
