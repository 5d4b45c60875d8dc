"""The worked examples run as described, without a network."""

import json
import os
import subprocess
from typing import Final

import pytest

from tests.support.docs_examples import ROOT

PYTHON: Final = ROOT / ".cache" / "examples" / "bin" / "python"
EXAMPLES: Final = {"anthropic_loop.py", "langgraph_agent.py", "openai_loop.py"}
STEPS: Final = [
    "a person reads: plan note-the-discount: 1 action on 1 file, +1 -1 lines",
    "propose_plan: APPROVED",
    "apply_plan: APPLIED",
    "a person reads: call crm.set_discount: acme has 0% off, and will have 5%",
    "crm-set_discount: done",
    "Done: acme has 5% off.",
    "discounts.md: acme: 5%",
    "customers: {'acme': 5}",
    "the record holds: True",
]


@pytest.mark.skipif(
    not PYTHON.exists(), reason="what the examples need is not here: `make test` puts it into .cache/examples"
)
def test_each_example_has_its_plan_and_call_approved_and_done_once_without_a_network() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("REMIT_")}
    ran = subprocess.run(
        [PYTHON, ROOT / "tests" / "governed_functions" / "run_examples.py", ROOT / "examples"],
        env={**environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    printed = json.loads(ran.stdout)
    assert set(printed) == EXAMPLES
    for name, lines in printed.items():
        assert [line for line in lines if not line.startswith("interrupted: ")] == STEPS, name
    assert [line for line in printed["langgraph_agent.py"] if line.startswith("interrupted: ")] == [
        "interrupted: propose_plan waits for a person",
        "interrupted: crm-set_discount waits for a person",
    ]
