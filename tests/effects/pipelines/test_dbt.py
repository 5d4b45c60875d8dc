"""A dbt project on a copy of a DuckDB file: what it builds, what it says, and how little of the machine it reaches."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import duckdb
import pytest

from remit.core.errors import Reason, RefusedError
from remit.plans.engines.pipeline import DbtCall, require_dbt
from remit.sandbox.host import SandboxHost
from remit.sandbox.orders import Quotas
from tests.effects.pipelines.pipeline_sandbox import MIB, SECRET, Bench, dbt_packages, make_host

PACKAGES: Final = dbt_packages()
QUOTAS: Final = Quotas(memory_bytes=900 * MIB, read_bytes=1024 * MIB, write_bytes=256 * MIB, seconds=120.0)
PROJECT: Final = "name: shop\nversion: '1.0'\nprofile: somebody_elses\n"

needs_dbt: Final = pytest.mark.skipif(PACKAGES is None, reason="dbt is not here: `make test` puts it into .cache/dbt")


@pytest.fixture(scope="module")
def dbt_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    with make_host(tmp_path_factory.mktemp("dbt"), QUOTAS, packages=[str(PACKAGES)]) as made:
        yield made


@pytest.fixture
def shop(tmp_path: Path, dbt_host: SandboxHost, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.syspath_prepend(str(PACKAGES))  # where `require_dbt` finds it, as if it were installed
    bench = Bench(tmp_path / "bench", dbt_host)
    bench.write("shop/dbt_project.yml", PROJECT)
    bench.write("shop/seeds/orders.csv", "id,amount\n1,10\n2,20\n3,30\n")
    bench.write("shop/models/big.sql", "SELECT * FROM {{ ref('orders') }} WHERE amount > {{ var('least') }}")
    bench.write(
        "shop/models/totals.sql",
        "{{ config(materialized='table') }} SELECT sum(amount) AS total FROM {{ ref('big') }}",
    )
    bench.write(
        "shop/models/schema.yml",
        "version: 2\nmodels:\n  - name: big\n    columns:\n      - name: id\n        data_tests: [unique]\n",
    )
    return bench


@needs_dbt
@pytest.mark.long  # the same through a whole plan is in tests/plans/pipelines
@pytest.mark.req("PX-21")
def test_seeds_models_and_tests_are_built_on_the_copy(shop: Bench) -> None:
    ran = shop.run(dbt=DbtCall("shop", "shop.duckdb", "build", ()), parameters={"least": 15}, seconds=100.0)
    assert ran.problem is None, ran.log
    assert [(one.name, one.state, one.rows) for one in ran.steps] == [
        ("seed.shop.orders", "done", 3),
        ("model.shop.big", "done", None),
        (ran.steps[2].name, "done", None),
        ("model.shop.totals", "done", 1),
    ]
    assert [one.words for one in ran.steps] == ["seed", "view", "pass", "table"]
    assert ran.steps[2].name.startswith("test.shop.unique_big_id.")
    assert shop.heard[0] == (1, 4, "seed.shop.orders")
    assert shop.heard[-1] == (4, 4, "model.shop.totals")
    with duckdb.connect(str(shop.scratch / "shop.duckdb"), read_only=True) as made:
        assert made.execute("SELECT total FROM totals").fetchall() == [(50,)]
    assert any("Completed successfully" in line for line in ran.log)
    assert any("Done: 4 passed, 0 with a warning, 0 failed, 0 skipped; 4 in all" in line for line in ran.log)
    assert not [line for line in ran.log if "****" in line]
    assert not (shop.scratch / "shop.duckdb.wal").exists()
    assert sorted(one.name for one in shop.scratch.iterdir()) == [".remit-pipeline", "shop", "shop.duckdb"]
    assert not (shop.scratch / "shop" / "target").exists()
    assert "dbt" not in sys.modules
    assert not any(name.startswith("dbt.") for name in sys.modules)


@needs_dbt
@pytest.mark.long
@pytest.mark.req("PX-22")
def test_a_node_that_fails_is_named_and_what_depends_on_it_is_left_out(shop: Bench) -> None:
    shop.write("shop/models/other.sql", "{{ config(materialized='table') }} SELECT 1 AS a")
    shop.write("shop/models/big.sql", "{{ config(materialized='table') }} SELECT nothing FROM {{ ref('orders') }}")
    ran = shop.run(dbt=DbtCall("shop", "shop.duckdb", "build", ()), seconds=100.0)
    states = {one.name: one.state for one in ran.steps}
    assert states["seed.shop.orders"] == "done"
    assert states["model.shop.big"] == "failed"
    assert states["model.shop.totals"] == "skipped"
    assert states["model.shop.other"] == "done"
    assert ran.problem is not None
    assert ran.problem.reason is Reason.PIPELINE_FAILED
    assert ran.problem.what.startswith("step model.shop.big failed: ")
    assert "nothing" in ran.problem.what


@needs_dbt
@pytest.mark.long
def test_a_test_that_fails_is_a_failure(shop: Bench) -> None:
    shop.write("shop/seeds/orders.csv", "id,amount\n1,10\n1,20\n")
    ran = shop.run(dbt=DbtCall("shop", "shop.duckdb", "build", ()), parameters={"least": 0}, seconds=100.0)
    assert ran.problem is not None
    assert "unique_big_id" in ran.problem.what


@needs_dbt
@pytest.mark.long
def test_only_what_is_selected_is_run(shop: Bench) -> None:
    ran = shop.run(dbt=DbtCall("shop", "shop.duckdb", "seed", ("orders",)), parameters={"least": 0}, seconds=100.0)
    assert ran.problem is None
    assert [one.name for one in ran.steps] == ["seed.shop.orders"]


HOSTILE: Final = {
    "reads": "SELECT * FROM read_text('/etc/passwd')",
    "attaches": "SELECT 1 AS a",
    "copies": "SELECT 1 AS a",
    "fetches": "SELECT * FROM read_csv('http://127.0.0.1:9/a.csv')",
    "installs": "SELECT 1 AS a",
}
HOOKS: Final = {
    "attaches": "ATTACH '{outside}/other.duckdb' AS other",
    "copies": "COPY (SELECT 1) TO '{outside}/copied.csv'",
    "installs": "INSTALL httpfs",
}
IN_PYTHON: Final = """
    import os, socket
    def model(dbt, session):
        {attempt}
        return session.sql("SELECT 1 AS a")
"""
ATTEMPTS: Final = {
    "py_reads": "open('{outside}/secret.txt').read()",
    "py_writes": "open('{outside}/made', 'w').close()",
    "py_calls": "socket.socket()",
    "py_forks": "os.fork()",
}


@needs_dbt
@pytest.mark.req("FX-11", "PX-19")
def test_no_model_hook_or_python_reaches_out(shop: Bench) -> None:
    for old in ("big.sql", "totals.sql", "schema.yml"):
        (shop.scratch / "shop" / "models" / old).unlink()
    for name, text in HOSTILE.items():
        hook = HOOKS.get(name, "").format(outside=shop.outside)
        configured = f'{{{{ config(materialized="table", pre_hook="{hook}") }}}} '
        shop.write(f"shop/models/{name}.sql", configured.replace(', pre_hook=""', "") + text)
    for name, attempt in ATTEMPTS.items():
        shop.write(f"shop/models/{name}.py", IN_PYTHON.format(attempt=attempt.format(outside=shop.outside)))
    shop.write("shop/models/honest.sql", '{{ config(materialized="table") }} SELECT 1 AS a')
    ran = shop.run(dbt=DbtCall("shop", "shop.duckdb", "run", ()), seconds=110.0)
    states = {one.name.removeprefix("model.shop."): one.state for one in ran.steps}
    assert states == {**dict.fromkeys((*HOSTILE, *ATTEMPTS), "failed"), "honest": "done"}, ran.log
    assert [one.name for one in shop.outside.iterdir()] == ["secret.txt"]
    assert shop.secret.read_text() == SECRET
    assert "root:" not in "".join(ran.log)


@needs_dbt
@pytest.mark.long
def test_a_hook_of_the_run_that_reaches_out_fails_it(shop: Bench) -> None:
    hook = f"on-run-start: \"COPY (SELECT 1) TO '{shop.outside}/copied.csv'\"\n"
    shop.write("shop/dbt_project.yml", PROJECT + hook)
    ran = shop.run(dbt=DbtCall("shop", "shop.duckdb", "build", ()), parameters={"least": 0}, seconds=100.0)
    assert ran.problem is not None
    assert ran.problem.reason is Reason.PIPELINE_FAILED
    assert [one.name for one in shop.outside.iterdir()] == ["secret.txt"]


@needs_dbt
@pytest.mark.long
@pytest.mark.parametrize(
    "path, text, words",
    [
        ("shop/packages.yml", "packages:\n  - package: dbt-labs/dbt_utils\n    version: 1.1.1\n", "package"),
        ("shop/dbt_project.yml", "name: [\n", "Syntax error near line 2"),
        ("shop/models/big.sql", "SELECT * FROM {{ ref('nowhere') }}", "nowhere"),
    ],
)
def test_a_project_that_cannot_begin_is_reported_in_the_words_of_dbt(
    shop: Bench, path: str, text: str, words: str
) -> None:
    shop.write(path, text)
    ran = shop.run(dbt=DbtCall("shop", "shop.duckdb", "build", ()), parameters={"least": 0}, seconds=100.0)
    assert ran.problem is not None
    assert ran.problem.reason is Reason.PIPELINE_FAILED
    assert words in ran.problem.what
    assert not [one for one in ran.steps if one.state == "done"]


@needs_dbt
@pytest.mark.long
def test_dbt_that_takes_too_long_is_ended(shop: Bench) -> None:
    slow = "SELECT count(*) AS a FROM range(1000000) AS one, range(1000000) AS two WHERE one.range * two.range % 7 = 3"
    shop.write("shop/models/totals.sql", f"{{{{ config(materialized='table') }}}} {slow}")
    ran = shop.run(dbt=DbtCall("shop", "shop.duckdb", "run", ("totals",)), parameters={"least": 0}, seconds=20.0)
    assert ran.problem is not None
    assert ran.problem.reason is Reason.TIMED_OUT
    assert "model.shop.totals" not in [one.name for one in ran.steps if one.state == "done"]


def test_without_dbt_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [one for one in sys.path if "site-packages" not in one])
    with pytest.raises(RefusedError) as refused:
        require_dbt()
    assert refused.value.reason is Reason.CAPABILITY_UNSUPPORTED
    assert "pip install 'remit[dbt]'" in refused.value.next_step


@needs_dbt
def test_with_dbt_there_is_nothing_to_say_and_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PACKAGES))
    require_dbt()
    assert "dbt" not in sys.modules
