"""Each of the ten violations, planted in several shapes in a copy of the sources, is found under its own name."""

import json
from typing import Final

import pytest

from scripts.agent_guardrails_sources import RULES, Violation
from tests.guardrails.project_copy import Copied

Edit = tuple[str, str, str]
END: Final = ""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Copied:
    return Copied(tmp_path_factory.mktemp("copied"))


BYPASS: Final[dict[str, Edit]] = {
    "imports a door": ("goals/core.py", END, "from remit.tasks.service import Tasks\n"),
    "imports an effect": ("goals/planner.py", END, "import remit.effects.tasks.files as harmless\n"),
    "imports in a function": ("goals/gates.py", END, "def f():\n    from remit.plans.service import Plans\n"),
    "imports relatively": ("goals/gates.py", END, "from ..tasks import kernel\n"),
    "imports a whole room": ("goals/core.py", END, "from remit.browser import service\n"),
    "imports everything": ("goals/core.py", END, "from remit.plans.engines.input_files import *\n"),
    "imports the executor": (
        "goals/planner.py",
        END,
        "from remit.goals.simulation_executor import SimulationOperation\n",
    ),
    "imports the runner": ("goals/core.py", END, "from remit.goals.ports import ActionRunner\n"),
    "imports the road": ("goals/core.py", END, "from remit.execution.engine import run_operation\n"),
    "imports promotion": ("goals/core.py", END, "from remit.goals.promotion import PromotionService\n"),
    "starts a process": ("goals/core.py", END, "import subprocess\n"),
    "opens a socket": ("goals/finder/finder.py", END, "from socket import create_connection\n"),
    "loads by name": ("goals/core.py", END, "import importlib\n"),
    "asks for an operator": ("goals/core.py", END, "from operator import methodcaller\n"),
    "takes a module out of another": ("goals/catalogue/catalogue.py", END, "from pathlib import os as paths\n"),
    "takes one by a dot": ("goals/catalogue/catalogue.py", END, "import pathlib\npathlib.os.system('x')\n"),
    "takes one by getattr": ("goals/history.py", END, "import threading\ngetattr(threading, '_' + 'sys')\n"),
    "sets itself off": ("goals/service.py", END, "threading.Timer(60, print).start()\n"),
    "uses __import__": ("goals/core.py", END, "t = __import__('remit.tasks.service')\n"),
    "evaluates": ("goals/core.py", END, "eval('1')\n"),
    "moves the runner": ("goals/core.py", END, "def f(x):\n    return x.runner.run({}, 1.0)\n"),
    "runs what was made ready": ("goals/planner.py", END, "def f(x):\n    return x.prepare(1, 2, 3)\n"),
    "moves them by a written name": ("goals/core.py", END, "def f(x):\n    return getattr(x, 'ru' + 'n')()\n"),
    "moves them by a made-up name": ("goals/core.py", END, "def f(x, n):\n    return getattr(x, n)()\n"),
    "gets at them by __dict__": ("goals/core.py", END, "def f(x):\n    return x.__dict__['door']\n"),
    "renames getattr": ("goals/core.py", END, "look = getattr\n"),
    "dispatches twice": ("goals/core.py", END, "def f(x, e):\n    x.executor.dispatch(e)\n"),
    "dispatches elsewhere": ("goals/recording.py", END, "def f(x, e):\n    x.dispatch(e)\n"),
    "dispatches by its caller": (
        "goals/service.py",
        END,
        "def f(x, e):\n    send = x.executor.dispatch\n    send(e)\n",
    ),
    "dispatches in another room": ("workspace/workspace.py", END, "def f(goals, e):\n    goals.executor.dispatch(e)\n"),
    "makes a second executor": (
        "workspace/workspace.py",
        END,
        "def f(SimulationExecutor):\n    return SimulationExecutor(1, 2)\n",
    ),
    "makes another runner": ("goals/service.py", END, "def f(GoalActionRunner):\n    return GoalActionRunner(1)\n"),
    "lets the rules reach a task": ("goals/rules_loader.py", END, "from remit.tasks.service import Tasks\n"),
}

DIRECT_WRITE: Final[dict[str, Edit]] = {
    "inserts": ("goals/core.py", END, "S = 'INSERT INTO orders VALUES (1)'\n"),
    "inserts in small letters": ("goals/core.py", END, "S = 'insert  into orders values (1)'\n"),
    "updates by an f-string": ("goals/core.py", END, "def f(t):\n    return f'UPDATE {t} SET paid = 1'\n"),
    "deletes in two pieces": ("goals/core.py", END, "S = 'DELETE ' + 'FROM orders'\n"),
    "drops by a template": ("goals/core.py", END, "S = 'DROP TABLE %s' % 'orders'\n"),
    "alters by a join": ("goals/core.py", END, "S = ' '.join(['ALTER', 'TABLE', 'orders'])\n"),
    "grants": ("goals/core.py", END, "S = 'GRANT ALL ON orders TO mia'\n"),
    "writes in the goals": ("goals/service.py", END, "S = 'TRUNCATE orders'\n"),
    "executes": ("goals/core.py", END, "def f(c, s):\n    c.execute(s)\n"),
    "executes by its name": ("goals/core.py", END, "def f(c, s):\n    getattr(c, 'execute')(s)\n"),
    "asks out of sight": ("goals/core.py", END, "def f(c, verb):\n    list(c.rows(f'{verb} FROM orders'))\n"),
    "runs a script": ("goals/actions/runner.py", END, "def f(c, s):\n    c.script(s)\n"),
    "inserts a row": ("goals/core.py", END, "def f(batch, s):\n    batch.insert(s, ())\n"),
    "appends a row past its table": ("goals/core.py", END, "def f(batch, e):\n    batch.append_for_row(e)\n"),
    "connects": ("goals/core.py", END, "def f(x):\n    return x.store.connect()\n"),
    "imports a database": ("goals/core.py", END, "import sqlite3\n"),
    "imports a table of the store": ("goals/core.py", END, "from remit.store.approvals import *\n"),
    "imports grants": ("goals/service.py", END, "import remit.store.grants\n"),
    "imports another writer": ("goals/core.py", END, "from remit.ledger.projections import rebuild\n"),
    "moves a step elsewhere": (
        "goals/core.py",
        END,
        "from remit.ledger.projections import append_step as note\nnote(1)\n",
    ),
    "appends an event of its own": ("goals/core.py", END, "E = NewEntry('t', 'task.done', 'c', {})\n"),
    "appends one elsewhere": (
        "goals/planner.py",
        END,
        "from remit.ledger.entry import NewEntry as E\nE(1, 'agent.refused')\n",
    ),
    "opens a file": ("goals/core.py", END, "def f(p):\n    open(p, 'w')\n"),
    "writes a file": ("goals/catalogue/catalogue.py", END, "def f(p: Path):\n    p.write_text('x')\n"),
    "replaces a path": ("goals/catalogue/catalogue.py", END, "def f(a: Path, b: Path):\n    a.replace(b)\n"),
    "replaces a file": ("goals/core.py", END, "from os import replace\n"),
    "removes a folder": ("goals/service.py", END, "import shutil as files\n"),
    "writes a transcript": ("goals/outcomes.py", END, "def f(x):\n    x.transcript.add('done')\n"),
    "names a transcript's table": ("goals/core.py", END, "T = 'conversation_ledger'\n"),
}

TOOL_DISPATCH: Final[dict[str, Edit]] = {
    "makes an envelope": ("goals/core.py", END, "def f():\n    return DispatchEnvelope(simulation_id='send-mail')\n"),
    "under another name": (
        "goals/service.py",
        END,
        "from remit.contracts.goals.dispatch import DispatchEnvelope as N\ndef f():\n    return N(simulation_id='x')\n",
    ),
    "by an assignment": ("goals/core.py", END, "Note = DispatchEnvelope\ndef f():\n    return Note()\n"),
    "by its module": ("goals/gates.py", END, "import remit.contracts.goals.dispatch as d\ne = d.DispatchEnvelope()\n"),
    "by getattr": (
        "goals/gates.py",
        END,
        "import remit.contracts.goals.dispatch as d\ne = getattr(d, 'Dispatch' + 'Envelope')()\n",
    ),
    "past its checks": ("goals/core.py", END, "def f(e):\n    return e.model_copy(update={'simulation_id': 'x'})\n"),
    "without any": ("goals/core.py", END, "def f():\n    return DispatchEnvelope.model_construct(simulation_id='x')\n"),
    "read from a tree of its own": (
        "goals/core.py",
        "DispatchEnvelope.from_tree(tree,",
        "DispatchEnvelope.from_tree({**tree, 'simulation_id': 'send-mail'},",
    ),
    "read after a change": (
        "goals/core.py",
        "        outcome = self.executor.dispatch(",
        "        tree = dict(tree, simulation_id='send-mail')\n        outcome = self.executor.dispatch(",
    ),
    "read elsewhere": (
        "goals/service.py",
        END,
        "from remit.contracts.goals.dispatch import DispatchEnvelope as D\nD.parse(b'{}')\n",
    ),
    "another id": (
        "goals/planner.py",
        "simulation_id=_simulation_id(evidence, target)",
        "simulation_id=target.simulation.id",
    ),
    "the second candidate": ("goals/planner.py", "candidates[0].simulation_id", "candidates[-1].simulation_id"),
    "the simulation of another step": (
        "goals/planner.py",
        "for each in packet.steps if each.step == target.step.name",
        "for each in packet.steps",
    ),
    "the simulation that the catalogue names for a step": (
        "goals/planner.py",
        "return next(each.simulation for each in packet.steps if each.step == target.step.name)",
        "return target.step.simulation_id",
    ),
    "another simulation is run than dispatched": (
        "goals/simulation_executor.py",
        "entry = granted.evidence.catalogue.find(envelope.simulation_id)",
        "entry = granted.evidence.catalogue.find(envelope.access_action)",
    ),
    "ranked again": (
        "goals/gates.py",
        "first, *others = packet.candidates",
        "first, *others = sorted(packet.candidates, key=lambda one: one.score)",
    ),
    "a candidate of its own": (
        "goals/core.py",
        END,
        "from remit.contracts.goals.packets import Candidate\nC = Candidate(simulation_id='x')\n",
    ),
    "a binding to a tool": (
        "contracts/goals/simulation.py",
        "| UndoBinding | CompositeBinding,",
        "| UndoBinding | CompositeBinding | ToolBinding,",
    ),
    "a binding by another word": (
        "contracts/goals/simulation.py",
        'type: Literal["task"]',
        'type: Literal["task", "tool"]',
    ),
    "a binding by any word": ("contracts/goals/simulation.py", 'type: Literal["undo"]', "type: str"),
    "an action without a door": (
        "goals/binding/binding.py",
        "BoundAction = TaskAction | PlanAction",
        "BoundAction = ToolAction | TaskAction | PlanAction",
    ),
}

ROLLBACK: Final[dict[str, Edit]] = {
    "the gate is gone": (
        "goals/gates.py",
        'return GateVerdict("REFUSED", "ROLLBACK_PLAN_MISSING", target)',
        "pass",
    ),
    "the gate asks less": (
        "goals/gates.py",
        "if _needs_rollback(target) and not _rollback_entry(",
        "if target.simulation.risk == 'HIGH' and not _rollback_entry(",
    ),
    "a step that only reads names none": (
        "goals/gates.py",
        "return target.whole is not None or needs_confirmation(target.simulation)",
        "return needs_confirmation(target.simulation)",
    ),
    "fewer are impactful": (
        "goals/gates.py",
        'return simulation.impact != "read_only"',
        'return simulation.impact == "irreversible"',
    ),
    "a simulation in the code": (
        "workspace/workspace.py",
        END,
        "DEMO = {'id': 'pay', 'impact': 'irreversible', 'access_action': 'pay', 'binding': {'type': 'task'}}\n",
    ),
}

MISSING_DISPATCH: Final[dict[str, Edit]] = {
    "it is let through": ("goals/gates.py", '"ESCALATED", "SIMULATION_MISSING"', '"ACCESS_ALLOWED", "ACCESS_ALLOWED"'),
    "it is matched": ("goals/gates.py", 'return GateVerdict("ESCALATED", "SIMULATION_MISSING")', "pass"),
    "it is matched sometimes": (
        "goals/gates.py",
        "if isinstance(packet, MissingSimulationPacket):",
        "if isinstance(packet, MissingSimulationPacket) and evidence.planned is None:",
    ),
    "its branch is gone": (
        "goals/gates.py",
        "    if isinstance(packet, MissingSimulationPacket):\n        return GateVerdict(",
        "    if False:\n        return GateVerdict(",
    ),
    "escalated counts as on its way": (
        "goals/core.py",
        'frozenset({"ACCESS_ALLOWED",',
        'frozenset({"ESCALATED", "ACCESS_ALLOWED",',
    ),
    "any event dispatches": (
        "goals/gates.py",
        'return self.event == "ACCESS_ALLOWED"',
        'return self.event != "REFUSED"',
    ),
    "the core does not look": (
        "goals/core.py",
        "            if history.event in ALLOWED_OR_LATER:\n                return self._dispatch",
        "            if history.last is not None:\n                return self._dispatch",
    ),
    "the core does not look at its verdict": (
        "goals/core.py",
        "if made.verdict.dispatches:",
        "if made.ref:",
    ),
    "the core hands over another decision": (
        "goals/core.py",
        "return self._dispatch(case, made.ref)",
        "return self._dispatch(case, history.decision_ref)",
    ),
    "a later attempt does not look": (
        "goals/core.py",
        "        if history.event in ALLOWED_OR_LATER:\n            return self._dispatch(case, history.allowed_by, at",
        "        if attempt > 1:\n            return self._dispatch(case, history.allowed_by, at",
    ),
    "a verdict of its own": (
        "goals/planner.py",
        END,
        "def f(GateVerdict):\n    return GateVerdict('ACCESS_ALLOWED', 'x')\n",
    ),
    "an envelope without a verdict": ("goals/decisions.py", "if verdict.dispatches and target", "if target"),
    "a step goes on after it": (
        "ledger/projections.py",
        '"ESCALATED": frozenset(),',
        '"ESCALATED": frozenset({"PLANNED"}),',
    ),
}

PACKET_PROOF: Final[dict[str, Edit]] = {
    **{
        f"{name} {how}": ("contracts/goals/packets.py", f"    {name}: Identifier\n", line)
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
    "a kind that is no packet": (
        "contracts/goals/packets.py",
        "class RefusePacket(Packet)",
        "class RefusePacket(Contract)",
    ),
    "a kind that knows better": (
        "contracts/goals/packets.py",
        '    packet_type: Literal["missing"]\n',
        '    packet_type: Literal["missing"]\n    proof_ref: str = ""\n',
    ),
    "a fifth kind": (
        "contracts/goals/packets.py",
        "    SimulationMatchPacket | ClarifyPacket",
        "    Hint | SimulationMatchPacket | ClarifyPacket",
    ),
}

STEP_REFS: Final[dict[str, Edit]] = {
    "an envelope without a policy": (
        "contracts/goals/dispatch.py",
        "policy_snapshot_ref: Identifier\n",
        "policy_snapshot_ref: Identifier | None = None\n",
    ),
    "an envelope without artifacts": (
        "contracts/goals/dispatch.py",
        "    artifact_fingerprint_bundle_ref: Identifier\n",
        "",
    ),
    "a step without a policy": (
        "contracts/goals/goal.py",
        "policy_snapshot_version: Identifier\n",
        'policy_snapshot_version: Identifier = "latest"\n',
    ),
    "a decision without a policy": (
        "goals/decisions.py",
        "policy_snapshot_ref: str\n",
        "policy_snapshot_ref: str | None = None\n",
    ),
    "a row that is not told": (
        "goals/recording.py",
        "        artifact_fingerprint_bundle_ref=record.artifact_fingerprint_bundle_ref,\n",
        "",
    ),
    "a row that is told nothing": (
        "goals/recording.py",
        "policy_snapshot_ref=record.policy_snapshot_ref",
        "policy_snapshot_ref=None",
    ),
    "a fixed policy": (
        "goals/planner.py",
        "policy_snapshot_version=evidence.policy.ref",
        'policy_snapshot_version="1"',
    ),
    "a step of its own": (
        "goals/composite/layout.py",
        END,
        "from x import AgentStep\nS = AgentStep(step_id='step-9')\n",
    ),
    "a row of its own": ("goals/composite/driver.py", END, "from x import StepRow\nR = StepRow(event='SUCCEEDED')\n"),
    "the end of a goal without a policy": (
        "goals/composite/driver.py",
        "event=end.ending, reason_code=code",
        "event=end.ending, reason_code=code, policy_snapshot_ref=None",
    ),
    "a rollback without its artifacts": (
        "goals/rollback.py",
        '        event="ROLLED_BACK",\n',
        '        event="ROLLED_BACK",\n        artifact_fingerprint_bundle_ref="",\n',
    ),
    "a table without the column": (
        "ledger/goal_tables.py",
        "    policy_snapshot_ref: str | None = None\n",
        "",
    ),
}

DRIVER: Final = "goals/composite/driver.py"
SEQUENCE: Final[dict[str, Edit]] = {
    "the executor does not look": (
        "goals/simulation_executor.py",
        "        require_in_sequence(batch.store, envelope, granted.evidence)\n",
        "",
    ),
    "it looks too late": (
        "goals/simulation_executor.py",
        "        require_in_sequence(batch.store, envelope,",
        "        append_step(batch, '', granted.row)\n        require_in_sequence(batch.store, envelope,",
    ),
    "it takes any step before": ("goals/recording.py", '"SUCCEEDED" for each in before', '"" for each in before'),
    "the goal may have ended": ("goals/recording.py", 'wanted = {WHOLE: "STARTED", **', "wanted = {**"),
    "a step begins anywhere": (
        "goals/recording.py",
        "        _begin_step(batch, tenant_id, decision, sequence)\n",
        "        pass\n",
    ),
    "a step begins after any step": (
        "goals/recording.py",
        "    for step_id, event in sequence.items():\n        if",
        "    if",
    ),
    "an end over other rows": (
        "goals/recording.py",
        "    require_positions(batch, tenant_id, row.correlation_id, seen)\n",
        "",
    ),
    "steps that nobody promoted": (
        "goals/gates.py",
        "    if problem := packet_problem(packet, named, evidence.catalogue):\n",
        "    if problem := '':\n",
    ),
    "the goal of another user": (
        "goals/core.py",
        "                require_same_goal(connection, goal, case.documents, whole)\n",
        "",
    ),
    "rows that nobody verified": (DRIVER, "            self._verify(connection, history)\n", ""),
    "an answer for any step": (
        DRIVER,
        "answered = self._require_answer_for_open_step(situation)",
        "answered = self._goal.confirm_state.step_id",
    ),
    "it does not read again": (
        DRIVER,
        "            situation = self._read_again()\n            if isinstance",
        "            if isinstance",
    ),
    "a step by its caller": (
        "goals/service.py",
        END,
        "def f(core, case):\n    return core.run_cycle(case, (), None)\n",
    ),
    "an attempt by its caller": (
        "goals/recording.py",
        END,
        "def f(core, case):\n    return core.run_attempt(case, 2)\n",
    ),
    "another function of the driver": (DRIVER, END, "def f(core, case):\n    return core.run_attempt(case, 2)\n"),
}

MEMORY: Final[dict[str, Edit]] = {
    "the driver counts": (
        DRIVER,
        "            answered = None\n",
        "            answered = None\n            self._place = 1\n",
    ),
    "it remembers a situation": (
        DRIVER,
        "        situation = self.read()\n        if situation is None:  #",
        "        situation = self._situation = self.read()\n        if situation is None:  #",
    ),
    "it holds one more": (
        DRIVER,
        "        self._verified: set[int] = set()\n",
        "        self._verified: set[int] = set()\n        self._done = set()\n",
    ),
    "it makes up rows": (
        DRIVER,
        "next_move(steps, history.steps, keep=keep)",
        "next_move(steps, history.steps[:-1], keep=keep)",
    ),
    "the core has a list": ("goals/core.py", END, "DONE = []\n"),
    "the driver has a table": (DRIVER, END, "STATES: dict[str, int] = {}\n"),
    "a table by a call": (
        "goals/composite/progress.py",
        END,
        "from collections import defaultdict\nSEEN = defaultdict(list)\n",
    ),
    "a function with a cache": (
        "goals/composite/progress.py",
        END,
        "from functools import lru_cache as keep\n@keep\ndef f(x): return x\n",
    ),
    "a global": ("goals/composite/layout.py", END, "LAST = ''\ndef f(x):\n    global LAST\n    LAST = x\n"),
    "a step that can change": ("goals/composite/step_case.py", "@dataclass(frozen=True)", "@dataclass"),
    "a core that can change": ("goals/core.py", "@dataclass(frozen=True)", "@dataclass"),
    "the next step reads the ledger itself": (
        "goals/composite/progress.py",
        END,
        "from remit.ledger.goal_queries import step_events\n",
    ),
    "the next step asks a clock": ("goals/composite/progress.py", END, "import time\n"),
}

LOOP: Final[dict[str, Edit]] = {
    "a while": ("goals/core.py", END, "def f(x):\n    while x():\n        pass\n"),
    "a while of the driver": (DRIVER, "        for _ in range(MAX_MOVES):", "        while True:"),
    "a while without an end where one may walk": ("goals/composite/order.py", "    while left:", "    while True:"),
    "counted for ever": ("goals/composite/progress.py", END, "from itertools import count\nN = count()\n"),
    "asked until it answers": ("goals/core.py", END, "def f(x):\n    return list(iter(x, None))\n"),
    "a bound that is no number": (DRIVER, "MAX_MOVES: Final = 500", "MAX_MOVES: Final = int(1e9)"),
    "a bound that is too high": ("goals/core.py", "MAX_ROUNDS: Final = 8", "MAX_ROUNDS: Final = 800"),
    "another bound": (DRIVER, "range(MAX_MOVES)", "range(10**9)"),
    "it waits elsewhere": ("goals/gates.py", END, "import time\ntime.sleep(1)\n"),
    "it waits as long as the clock says": (
        DRIVER,
        "min(at - self._core.clock(), longest).total_seconds()",
        "(at - self._core.clock()).total_seconds()",
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
    "sequence": SEQUENCE,
    "memory": MEMORY,
    "loop": LOOP,
}


def test_every_rule_has_a_seed() -> None:
    assert set(SEEDS) == set(RULES)
    assert len(RULES) == 10


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
    text = (copied.root / "src/remit/goals/core.py").read_text()
    found = copied.with_edit("goals/core.py", END, "import subprocess\n")
    assert [(one.rule, one.file, one.line) for one in found] == [
        ("bypass", "src/remit/goals/core.py", text.count("\n") + 1)
    ]
    shown = str(found[0])
    assert shown.startswith("bypass: src/remit/goals/core.py:")
    assert "subprocess" in shown
    assert found[0].next_step in shown


SHOWN: Final = {
    "id": "pay",
    "impact": "side_effecting",
    "access_action": "pay",
    "binding": {"type": "task", "capability_id": "X", "inputs": {}},
}


@pytest.mark.req("AC-16", "AC-14")
def test_a_shown_catalogue_without_a_rollback_is_found(copied: Copied) -> None:
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
