"""No password anywhere; rows in the file that leads back, in previews, and nowhere else."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from remit.cli import main
from tests.plans.postgres.postgres_project import SECRET, VARIABLE, Store, mixed, on_shop
from tests.plans.project import plan_of, refused
from tests.support.kept_text import read_kept


def files_with(store: Store, word: str) -> set[str]:
    """Every file with the word below the test's folder: state, ledger, reports, logs and all but stored previews."""
    return {str(path.relative_to(store.folder)) for path, text in read_kept(store.folder).items() if word in text}


@pytest.mark.req("PX-34")
def test_the_password_is_nowhere_and_rows_are_only_where_they_lead_back(store: Store) -> None:
    parameter = "a-parameter-of-nobody"
    plan = mixed(on_shop("a5", "UPDATE people SET note = $note WHERE id = 2", parameters={"note": parameter}))
    preview = store.workspace.preview(plan)
    assert store.password not in repr(preview)
    outcome = store.apply(plan)
    kept = {str((store.report_folder(outcome) / "backups" / "rows.bak").relative_to(store.folder))}
    assert files_with(store, store.password) == set()
    assert files_with(store, SECRET) == kept
    assert files_with(store, parameter) == kept
    store.workspace.rollback("last")
    assert files_with(store, store.password) == set()
    assert files_with(store, SECRET) == kept
    assert store.state() == "before"
    store.workspace.prune()
    assert files_with(store, SECRET) == set()


@pytest.mark.req("PX-34")
def test_a_wrong_password_is_reported_without_the_password(store: Store) -> None:
    envelope = store.approve(mixed()).canonical()
    wrong = f"{store.password}-wrong"
    store.environ[VARIABLE] = store.url.replace(store.password, wrong).replace("host=", "host=/nowhere")
    _, message = refused(store.workspace.apply(envelope))
    assert store.password not in message
    assert files_with(store, store.password) == set()


@pytest.mark.req("PX-34")
def test_a_failure_at_a_row_tells_no_value_of_it(store: Store) -> None:
    plan = plan_of(on_shop("a1", "UPDATE people SET id = note::integer WHERE id = 1"))
    document = store.workspace.preview(plan).document
    assert document.status == "WOULD_FAIL"
    assert SECRET not in document.canonical().decode()


def said(store: Store, *arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(main, [*arguments, "--workspace", str(store.root)], env={**store.environ})
    return ended.exit_code, ended.output


def test_people_are_shown_rows_servers_and_the_rollback(store: Store, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(mixed())
    code, output = said(store, "preview", str(plan))
    assert code == 0, output
    assert f"5 rows on {store.where}" in output
    assert "a2: change public.orders on shop" in output
    assert "public.people 1 deleted; public.orders 2 deleted" in output
    assert "yes: the rows are backed up as they are now" in output
    assert "Everything can be undone" in output
    code, output = said(store, "run", str(plan), "--yes")
    assert code == 0, output
    assert "a2: SQL on connection shop: 1 statement, 2 rows changed" in output
    assert "remit rollback last" in output
    assert "or, for the files: python3 -I" in output
    code, output = said(store, "rollback", "last")
    assert code == 0, output
    assert f"rows of public.orders, public.people on {store.where}" in output
    assert store.password not in output
    assert store.state() == "before"


@pytest.mark.req("PX-20")
def test_people_see_what_cannot_be_rolled_back_before_and_after_the_run(store: Store, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(plan_of(on_shop("a1", "INSERT INTO log VALUES ('x')")))
    _, output = said(store, "preview", str(plan))
    assert "no: public.log has no primary key" in output
    assert "--allow-irreversible a1" in output
    code, _ = said(store, "run", str(plan), "--yes")
    assert code == 2
    code, output = said(store, "run", str(plan), "--yes", "--allow-irreversible", "a1")
    assert code == 0, output
    assert f"remains   the changes on {store.where} cannot be undone: public.log has no primary key" in output
    code, output = said(store, "rollback", "last")
    assert code == 2
    assert "public.log has no primary key" in output
