"""Query files on a PostgreSQL database: they run with what the plan does there, and are told as a pipeline."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.cli.plans.render import render_preview
from remit.core.errors import RefusedError
from tests.plans.pipelines.pipeline_project import pipeline
from tests.plans.postgres.postgres_project import Store
from tests.plans.project import plan_of, ran, replace

PIPELINES = {
    "nightly": {
        "type": "sql",
        "connection": "shop",
        "steps": ["sql/pay.sql", "sql/note.sql"],
        "parameters": ["more", "line"],
    }
}
ROWS = "SELECT id, state, total::text FROM orders ORDER BY id"


@pytest.fixture
def store(tmp_path: Path, postgres_url: str) -> Iterator[Store]:
    made = Store(tmp_path, postgres_url, pipelines=PIPELINES)
    made.write("sql/pay.sql", "UPDATE orders SET state = 'paid', total = total + $more WHERE state = 'open';\n")
    made.write("sql/note.sql", "INSERT INTO people VALUES (9, $line, NULL);\n")
    made.before = made.world()
    yield made
    made.close()
    made.drop_role()


def nightly(*, reversible: bool = True) -> dict[str, object]:
    return pipeline("p1", "nightly", reversible=reversible, parameters={"more": 1, "line": "it is done"})


@pytest.mark.req("PX-20", "PX-21")
def test_query_files_on_a_server_are_previewed_run_and_rolled_back(store: Store) -> None:
    plan = plan_of(replace("a1", "a.txt"), nightly())
    preview = store.workspace.preview(plan).document
    assert store.world() == store.before
    (told,) = preview.pipelines
    assert [(step.name, step.state) for step in told.steps] == [("sql/pay.sql", "done"), ("sql/note.sql", "done")]
    assert (told.kind, told.reversible, preview.needs.irreversible) == ("sql", True, ())
    assert told.server == store.where
    assert preview.sql[0].query_file is None  # the statements are those of two files
    shown = " ".join(" ".join(render_preview(preview)).split())
    assert "p1: pipeline nightly (sql), in a transaction that was rolled back" in shown
    assert "by the query files of pipeline nightly" in shown
    assert "on copies" not in shown
    assert "0 ms" not in shown
    assert shown.count(" undo ") == 2  # of the action, and of the plan; and both say yes
    assert "everything that it changes is backed up" not in shown

    outcome = ran(store.workspace.apply(store.approve(plan).canonical()))
    assert outcome.status.status == "SUCCESS"
    assert [row[1] for row in store.ask(ROWS)] == ["paid", "done", "paid"]
    assert store.ask("SELECT name FROM people WHERE id = 9") == [("it is done",)]
    assert [one.action_id for one in outcome.report.pipelines] == ["p1"]
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.world() == store.before


@pytest.mark.req("PX-21", "PX-35")
def test_a_file_that_fails_is_named_and_nothing_is_changed(store: Store) -> None:
    store.write("sql/note.sql", "INSERT INTO nowhere VALUES ($line);\n")
    store.before = store.world()
    preview = store.workspace.preview(plan_of(replace("a1", "a.txt"), nightly())).document
    assert [problem.error_type for problem in preview.problems] == ["PIPELINE_FAILED"]
    assert "sql/note.sql" in preview.problems[0].message
    assert [step.state for step in preview.pipelines[0].steps] == ["done", "failed"]
    assert store.world() == store.before


@pytest.mark.req("PX-21")
def test_a_pipeline_that_cannot_be_undone_must_not_call_itself_reversible(store: Store) -> None:
    store.write("sql/note.sql", "ALTER TABLE log ADD COLUMN at timestamptz;\nINSERT INTO log VALUES ($line, now());\n")
    with pytest.raises(RefusedError, match="calls this pipeline reversible, and it is not"):
        store.workspace.preview(plan_of(nightly()))
    assert store.workspace.preview(plan_of(nightly(reversible=False))).document.needs.irreversible == ("p1",)
