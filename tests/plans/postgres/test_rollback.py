"""Rows of a server taken back with the files: all of it, a part, not what others changed, and not what cannot be."""

import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from remit.contracts.plans.outcome import PlanOutcome, RollbackOutcome
from remit.core.errors import RemitError
from remit.plans.storage.drift import drift_digest
from tests.plans.postgres.postgres_project import UPDATE, VARIABLE, Store, mixed, on_shop
from tests.plans.project import plan_of, replace

DDL = "ALTER TABLE log ADD COLUMN paid boolean"
LOG = "INSERT INTO log VALUES ('a line')"
ALL = ("a2", "a3", "a5")


def rows_id(outcome: PlanOutcome) -> str:
    assert outcome.manifest is not None
    assert outcome.manifest.rows is not None
    return outcome.manifest.rows.checkpoint_id


def reasons(outcome: RollbackOutcome) -> str:
    return "; ".join(error.message for error in outcome.errors)


@pytest.mark.req("PX-20", "PX-34")
@pytest.mark.parametrize("query, why", [(DDL, "ALTER of log cannot be rolled back"), (LOG, "no primary key")])
def test_an_action_that_cannot_be_undone_needs_an_approval_by_its_name(store: Store, query: str, why: str) -> None:
    plan = mixed(on_shop("a5", query))
    document = store.workspace.preview(plan).document
    assert document.status == "NEEDS_APPROVAL"
    assert document.needs.irreversible == ("a2", "a3", "a5")  # rows are taken back together, or not at all
    assert document.risk == "HIGH"
    (told,) = (one for one in document.sql if one.action_id == "a5")
    assert why in (told.irreversible or "")
    with pytest.raises(RemitError, match="cannot be undone, and the approval does not name it"):
        store.approve(plan, irreversible=["a5"])
    with pytest.raises(RemitError, match="needs no approval of this kind"):
        store.approve(plan, irreversible=[*ALL, "a1"])
    assert store.world() == store.before


@pytest.mark.req("PX-19", "PX-20")
@pytest.mark.parametrize("query, why", [(DDL, "ALTER of log cannot be rolled back"), (LOG, "no primary key")])
def test_a_rollback_without_its_rows_restores_the_files_and_says_why_the_rows_stay(
    store: Store, query: str, why: str
) -> None:
    envelope = store.approve(mixed(on_shop("a5", query)), irreversible=ALL)
    outcome = store.workspace.apply(envelope.canonical())
    assert isinstance(outcome, PlanOutcome)
    assert outcome.status.status == "SUCCESS"
    assert not (store.report_folder(outcome) / "backups" / "rows.bak").exists()
    after = store.rows()
    restored = store.workspace.rollback("last")
    assert restored.status == "PARTIAL"
    (kept,) = restored.kept
    assert kept.checkpoint_id == rows_id(outcome)
    assert "Cannot be rolled back" in kept.reason
    assert why in kept.reason
    assert restored.manifest.status == "ACTIVE"
    assert store.tree() == store.before[0]
    assert store.rows() == after
    again = store.workspace.rollback("last")
    assert again == restored  # there is nothing left that could be restored


def test_rows_that_cannot_be_rolled_back_cannot_be_selected_either(store: Store) -> None:
    envelope = store.approve(plan_of(on_shop("a1", DDL)), irreversible=["a1"])
    outcome = store.workspace.apply(envelope.canonical())
    assert isinstance(outcome, PlanOutcome)
    told = store.workspace.rollback("last", checkpoints=[rows_id(outcome)])
    assert told.status == "REFUSED"
    assert "nothing left to restore: " in reasons(told)
    assert "ALTER" in reasons(told)


@pytest.mark.req("PX-19")
def test_files_and_rows_can_be_rolled_back_one_after_the_other(store: Store) -> None:
    outcome = store.apply(mixed())
    assert outcome.manifest is not None
    files = [each.checkpoint_id for each in outcome.manifest.checkpoints]
    first = store.workspace.rollback("last", checkpoints=files)
    assert (first.status, first.manifest.status) == ("EXECUTED", "ACTIVE")
    assert store.tree() == store.before[0]
    assert store.rows() != store.before[1]
    second = store.workspace.rollback("last", checkpoints=[rows_id(outcome)])
    assert (second.status, second.manifest.status) == ("EXECUTED", "EXECUTED")
    assert second.restored == (rows_id(outcome),)
    assert store.state() == "before"


@pytest.mark.req("PX-19")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE orders SET total = 0 WHERE id = 3",
        "INSERT INTO people VALUES (1, 'Another', NULL)",
        "DELETE FROM orders WHERE id = 3",
    ],
)
def test_rows_that_others_changed_since_are_left_alone_and_so_are_the_files(store: Store, change: str) -> None:
    store.apply(mixed())
    store.ask(change)
    before = store.world()
    told = store.workspace.rollback("last")
    assert told.status == "REFUSED"
    assert "rows were changed since the plan ran, and nothing was restored: public." in reasons(told)
    assert store.world() == before
    of_files = store.workspace.rollback("last", force=True, drift=drift_digest({}))
    assert (of_files.status, store.world()) == ("REFUSED", before), "whoever looked at files saw no rows"
    forced = store.workspace.rollback("last", force=True)
    assert forced.status == "EXECUTED", reasons(forced)
    assert store.state() == "before"


def test_rows_that_the_plan_did_not_touch_stay_as_others_made_them(store: Store) -> None:
    store.apply(mixed())
    store.ask("INSERT INTO people VALUES (7, 'Eve', NULL)")
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.ask("SELECT name FROM people ORDER BY id") == [("Ada",), ("Bob",), ("Eve",)]


@pytest.mark.req("PX-19")
def test_without_its_server_nothing_is_rolled_back(store: Store) -> None:
    store.apply(mixed())
    after = store.tree()
    store.environ[VARIABLE] = f"postgresql://nobody:{store.password}@127.0.0.1:1/none"
    told = store.workspace.rollback("last")
    assert told.status == "REFUSED"
    assert store.password not in reasons(told)
    assert store.tree() == after
    store.environ[VARIABLE] = store.url
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.state() == "before"


def test_rows_are_put_back_into_the_database_that_they_are_of_and_into_no_other(
    store: Store, other_postgres_url: str
) -> None:
    store.apply(mixed())
    mine, other = urlsplit(store.url), urlsplit(other_postgres_url)
    store.environ[VARIABLE] = mine._replace(path=other.path).geturl()
    told = store.workspace.rollback("last")
    assert told.status == "REFUSED", told
    store.environ[VARIABLE] = store.url
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.state() == "before"


@pytest.mark.parametrize("harm", ["gone", "changed"])
def test_rows_are_restored_only_from_what_was_kept(store: Store, harm: str) -> None:
    outcome = store.apply(mixed())
    kept = store.report_folder(outcome) / "backups" / "rows.bak"
    assert kept.stat().st_mode & 0o777 == 0o600
    original = kept.read_bytes()
    if harm == "gone":
        kept.unlink()
    else:
        kept.write_bytes(original.replace(b"Ada", b"Eve"))
    before = store.world()
    told = store.workspace.rollback("last")
    assert told.status == "REFUSED"
    assert "rows.bak" in reasons(told)
    assert store.world() == before


@pytest.mark.req("PX-19")
def test_the_stand_alone_script_restores_the_files_and_says_loudly_that_the_rows_are_not(store: Store) -> None:
    outcome = store.apply(mixed())
    script = store.report_folder(outcome) / "rollback.py"
    after = store.rows()
    for options, says in ((["--dry-run"], "would do"), ([], "restored")):
        ended = subprocess.run([sys.executable, "-I", script, *options], capture_output=True, text=True, check=False)
        assert ended.returncode == 1
        assert says in ended.stdout
        assert f"NOT RESTORED: the rows of connection shop ({store.where})" in ended.stdout
        assert "remit rollback" in ended.stdout
    assert store.tree() == store.before[0]
    assert store.rows() == after
    asked = [sys.executable, "-I", str(script), "--checkpoint", rows_id(outcome)]
    assert subprocess.run(asked, capture_output=True, check=False).returncode == 2
    restored = store.workspace.rollback("last")
    assert restored.status == "EXECUTED", reasons(restored)
    assert store.rows() == store.before[1]


def test_a_rollback_that_the_server_does_not_commit_leaves_all_as_the_plan_left_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = store.apply(mixed())
    after = store.world()
    manifest = store.report_folder(outcome) / "rollback_manifest.json"
    before = manifest.read_bytes()
    ended: list[bool] = []

    def lose_connections(*_: object) -> None:
        ended.append(True)
        store.end_connections()

    monkeypatch.setattr("remit.plans.rollback.operation.require_originals_unchanged", lose_connections)
    told = store.workspace.rollback("last")
    assert ended
    assert told.status == "FAILED"
    assert "did not commit its part" in reasons(told)
    assert store.world()[1] == after[1]
    assert {path: each and each[:2] for path, each in store.tree().items()} == {
        path: each and each[:2] for path, each in after[0].items()
    }
    assert manifest.read_bytes() == before
    monkeypatch.undo()
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.state() == "before"


def test_before_images_are_kept_while_rows_can_be_rolled_back_and_pruned_afterwards(store: Store) -> None:
    outcome = store.apply(mixed())
    kept = store.report_folder(outcome) / "backups" / "rows.bak"
    assert store.workspace.prune() == []
    assert kept.exists()
    store.workspace.rollback("last")
    assert len(store.workspace.prune()) == 1
    assert not kept.exists()


def test_a_second_plan_on_the_same_rows_must_be_rolled_back_first(store: Store) -> None:
    first = store.apply(plan_of(on_shop("a1", UPDATE), replace("a2", "a.txt")))
    second = store.apply(plan_of(on_shop("a1", "UPDATE orders SET total = 0"), plan_id="plan-002"))
    assert store.workspace.rollback(first.status.envelope_id).status == "REFUSED"
    assert store.workspace.rollback(second.status.envelope_id).status == "EXECUTED"
    assert store.workspace.rollback(first.status.envelope_id).status == "EXECUTED"
    assert store.state() == "before"
