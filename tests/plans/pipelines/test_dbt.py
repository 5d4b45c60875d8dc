"""A dbt project, run by a plan on a copy of a database: previewed, approved by name, applied, and taken back.

dbt cannot be with the tools of development, so these run the command line in the environment that `make test` has made
for it.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from remit.core.errors import RefusedError
from remit.plans.engines.pipeline import require_dbt
from tests.effects.pipelines.pipeline_sandbox import ROOT, dbt_packages
from tests.plans.pipelines.pipeline_project import Works, pipeline
from tests.plans.project import create, plan_of
from tests.plans.sql.shop import DATABASE

HERE: Final = dbt_packages()
PYTHON: Final = ROOT / ".cache" / "dbt" / "bin" / "python"
MODELS: Final = {"type": "dbt", "project": "models", "connection": "shop", "parameters": ["least"]}
FILES: Final = {
    "models/dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: somebody_elses\n",
    "models/profiles.yml": "somebody_elses: {target: x, outputs: {x: {type: duckdb, path: /nowhere}}}\n",
    "models/target/old.json": "{}",
    "models/seeds/rates.csv": "id,rate\n1,2\n2,3\n",
    "models/models/priced.sql": (
        "{{ config(materialized='table') }} SELECT orders.id, amount * rate AS price "
        "FROM main.orders JOIN {{ ref('rates') }} AS rates USING (id) WHERE amount >= {{ var('least', 0) }}"
    ),
    "models/models/schema.yml": (
        "version: 2\nmodels:\n  - name: priced\n    columns:\n      - name: id\n        data_tests: [unique]\n"
    ),
}

APPROVE: Final = """
import json, sys
from pathlib import Path
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    plan = Path(sys.argv[2]).read_bytes()
    document = workspace.preview(plan).document
    envelope = workspace.approve(plan, irreversible=["m1"], as_seen=document.preview_digest)
Path(sys.argv[3]).write_bytes(envelope.canonical())
print(json.dumps(document.tree()))
"""

pytestmark = [
    pytest.mark.req("PX-21"),
    pytest.mark.timeout(600),  # dbt alone takes seconds to load, each time
    pytest.mark.skipif(HERE is None, reason="dbt is not here: `make test` puts it into .cache/dbt"),
]


@pytest.fixture
def works(tmp_path: Path) -> Works:
    made = Works(tmp_path, pipelines={"models": MODELS}, limits={"max_memory_bytes": 1 << 30})
    for path, content in FILES.items():
        made.write(path, content)
    made.before = made.tree()
    made.close()
    return made


def remit(works: Works, *arguments: str, plan: bytes | None = None) -> tuple[int, dict[str, Any]]:
    """The exit code, and what is printed with --json."""
    given = works.root.parent / "plan.json"
    if plan is not None:
        given.write_bytes(plan)
    places = [str(given) if word == "PLAN" else word for word in arguments]
    return program(works, "-m", "remit", *places, "--json", "--workspace", str(works.root))


def program(works: Works, *words: str) -> tuple[int, dict[str, Any]]:
    command = [str(PYTHON), "-P", *words]
    environment = {**os.environ, **works.environ, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    try:
        return ended.returncode, json.loads(ended.stdout or ended.stderr)
    except ValueError:
        raise AssertionError(f"{ended.returncode}: {ended.stdout}{ended.stderr}") from None


def test_models_are_previewed_on_the_copy_built_and_rolled_back(works: Works) -> None:
    plan = plan_of(create("a1", "note.txt"), pipeline("m1", "models", parameters={"least": 15}))
    given, envelope = works.root.parent / "plan.json", str(works.root.parent / "envelope.json")
    given.write_bytes(plan)
    code, preview = program(works, "-c", APPROVE, str(works.root), str(given), envelope)
    assert code == 0, preview
    assert works.tree() == works.before
    (told,) = preview["pipelines"]
    ended = {step["name"]: step["state"] for step in told["steps"]}
    assert {"seed.shop.rates": "done", "model.shop.priced": "done"}.items() <= ended.items()
    assert [name for name in ended if name.startswith("test.shop.unique_priced_id")]
    made = {step["name"]: (step["words"], step["rows"]) for step in told["steps"]}
    assert {"seed.shop.rates": ("seed", 2), "model.shop.priced": ("table", 1)}.items() <= made.items()
    assert "****" not in "".join(told["log"])
    assert told["changes"] == [DATABASE]
    assert preview["needs"]["irreversible"] == ["m1"]
    bound = {item["path"] for item in preview["inputs"]}
    assert bound == {DATABASE, "models"}

    code, outcome = remit(works, "apply", envelope)
    assert (code, outcome["status"]["status"]) == (0, "SUCCESS")
    assert works.rows("SELECT id, price FROM priced ORDER BY id") == [(2, 60)]
    assert {one["name"] for one in outcome["report"]["pipelines"][0]["steps"]} == set(ended)
    assert set(works.tree()) - set(works.before) == {"note.txt"}
    assert works.left_over() == []

    code, restored = remit(works, "rollback", "last")
    assert (code, restored["status"]) == (0, "EXECUTED")
    assert works.tree() == works.before


@pytest.mark.long
def test_a_model_that_fails_leaves_everything_as_it_was(works: Works) -> None:
    works.write("models/models/priced.sql", "SELECT nothing FROM nowhere")
    works.before = works.tree()
    code, preview = remit(works, "preview", "PLAN", plan=plan_of(pipeline("m1", "models")))
    assert code == 1
    (problem,) = preview["problems"]
    assert problem["error_type"] == "PIPELINE_FAILED"
    assert "model.shop.priced" in problem["message"]
    assert {step["state"] for step in preview["pipelines"][0]["steps"]} >= {"done", "failed"}
    assert works.tree() == works.before
    assert works.left_over() == []


@pytest.mark.long
def test_a_model_that_was_changed_since_the_approval_is_not_run(works: Works) -> None:
    plan, envelope = plan_of(pipeline("m1", "models")), str(works.root.parent / "envelope.json")
    _, preview = remit(works, "preview", "PLAN", plan=plan)
    named = ("--full", "--digest", preview["digest"])
    code, _ = remit(works, "approve", "PLAN", "--allow-irreversible", "m1", "--output", envelope, *named)
    assert code == 0
    works.write("models/models/priced.sql", "SELECT 1 AS id")
    works.before = works.tree()
    code, refused = remit(works, "apply", envelope)
    assert code == 2
    assert "models" in json.dumps(refused)
    assert works.tree() == works.before


def test_a_missing_dbt_is_reported(tmp_path: Path) -> None:
    works = Works(tmp_path, pipelines={"models": MODELS})
    works.write("models/dbt_project.yml", "name: shop\n")
    try:
        with pytest.raises(RefusedError) as told:
            require_dbt()
        assert "remit[dbt]" in told.value.next_step
        with pytest.raises(RefusedError, match="dbt with its adapter for DuckDB is not installed"):
            works.workspace.preview(plan_of(pipeline("m1", "models")))
    finally:
        works.close()
