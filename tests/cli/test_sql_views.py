"""What people see of SQL in a plan: statements, tables, rows, the way back; and nothing that a terminal obeys."""

from typing import Any

import click
import pytest

from remit.cli.plans.render import count_hidden_lines, render_outcome, render_preview
from remit.cli.plans.render_sql import render_rollback_note, render_rows, render_sql, summarise
from remit.contracts.plans.preview import PlanPreviewDocument, PreviewedFile
from remit.contracts.plans.sql_report import SqlPreviewed, SqlTold, ToldColumn
from tests.cli.test_plan_views import DIGEST, ended, previewed, text

WIDTHS = (80, 120)


def statement(number: int, kind: str, reads: Any, writes: Any, **more: Any) -> dict[str, Any]:
    return {"number": number, "kind": kind, "words": "in words", "reads": reads, "writes": writes, **more}


MIGRATION: dict[str, Any] = {
    "action_id": "a2",
    "connection": "shop",
    "database": "data/shop.duckdb",
    "query_file": "migrations/002.sql",
    "changes_database": True,
    "statements": [
        statement(1, "ALTER", [], ["orders"], destroys=True),
        statement(2, "UPDATE", ["orders", "prices"], ["orders"], rows_changed=1_203),
        statement(3, "DELETE", ["orders"], ["orders"], rows_changed=1, destroys=True),
        statement(4, "MERGE_INTO", None, ["orders"], rows_changed=2),
        statement(5, "SELECT", ["orders"], [], rows_read=400),
    ],
    "result_rows": 400,
    "columns": [{"name": "id", "type": "INTEGER"}, {"name": "item", "type": "VARCHAR"}],
    "rows": [["1", "bread"], ["22", None]],
}
READING: dict[str, Any] = {
    "action_id": "a3",
    "connection": "shop",
    "database": "data/shop.duckdb",
    "changes_database": False,
    "statements": [statement(1, "SELECT", ["orders"], [], rows_read=400)],
    "result_rows": 400,
    "columns": MIGRATION["columns"],
    "rows": MIGRATION["rows"],
}
SAVING: dict[str, Any] = READING | {"action_id": "a4", "saved_to": "reports/totals.parquet"}
CHANGE: dict[str, Any] = {
    "action_id": "a2",
    "path": "data/shop.duckdb",
    "new_path": None,
    "operation": "MODIFY",
    "before": DIGEST,
    "after": DIGEST,
    "size_before": 798_720,
    "size_after": 811_008,
    "lines_added": 0,
    "lines_removed": 0,
    "diff": "",
    "diff_left_out": 0,
}
RESULTS: dict[str, Any] = CHANGE | {
    "action_id": "a4",
    "path": "reports/totals.parquet",
    "operation": "CREATE",
    "before": None,
    "size_before": None,
}


def migration(**changed: Any) -> PlanPreviewDocument:
    told = MIGRATION | changed
    return previewed(files=[CHANGE], sql=[told], risk="HIGH")


def shown(document: PlanPreviewDocument, monkeypatch: pytest.MonkeyPatch, width: int, **options: Any) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    return text(render_preview(document, **options)).splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_migration_is_shown_as_one_reviews_it(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = shown(migration(), monkeypatch, width)
    assert lines[0] == "Plan plan-1: 1 change to 1 file, 1,206 rows by SQL"
    start = lines.index("    #  statement   writes  reads           rows, on a copy")
    assert lines[start - 2 : start] == [
        "a2: change data/shop.duckdb",
        "  by        migrations/002.sql, on connection shop: data/shop.duckdb",
    ]
    assert lines[start + 1 : start + 6] == [
        "    1  ALTER       orders",
        "    2  UPDATE      orders  orders, prices  1,203 changed",
        "    3  DELETE      orders  orders          1 removed",
        "    4  MERGE INTO  orders  not known       2 changed",
        "    5  SELECT              orders          400 read",
    ]
    assert lines[start + 7 : start + 10] == ["    id  item", "     1  bread", "    22  NULL"]
    told = " ".join(" ".join(lines).split())
    assert "removes statements 1 (ALTER), 3 (DELETE) remove rows, columns or whole tables" in told
    assert "rows 400 rows (the first 2 above), 2 columns: id INTEGER, item VARCHAR" in told
    assert "undo yes: the whole database file is backed up as it is now (798.7 KB)" in told
    assert all(len(line) <= width for line in lines)


def test_actions_that_read_are_distinguished_from_those_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(previewed(files=[CHANGE, RESULTS], sql=[MIGRATION, READING, SAVING]), monkeypatch, 120)
    assert lines[1:4] == [
        "  a2: change data/shop.duckdb        5 statements, 1,206 rows changed",
        "  a3: read data/shop.duckdb          1 statement, 400 rows read",
        "  a4: create reports/totals.parquet  1 statement, 400 rows read",
    ]
    told = "\n".join(lines)
    subject = "a4: create reports/totals.parquet\n"
    assert f"{subject}  by        SQL in the plan, on connection shop: data/shop.duckdb\n" in told
    assert "  saved     reports/totals.parquet: Parquet, 400 rows (the first 2 above), 2 columns: id INTEGER" in told
    assert "  undo      yes: the file is new, and would be removed\n" in told
    assert "  undo      nothing to undo: it only reads\n" in told


def test_what_runs_first_is_shown_first(monkeypatch: pytest.MonkeyPatch) -> None:
    server = "shop at db.example:5432/shop as remit"
    changing = READING | {
        "action_id": "a2",
        "database": None,
        "server": server,
        "changes_database": True,
        "statements": [statement(1, "UPDATE", [], ["public.orders"], rows_changed=2)],
        "tables": [{"table": "public.orders", "inserted": 0, "updated": 2, "deleted": 0}],
    }
    saving = SAVING | {"database": None, "server": server}
    lines = shown(previewed(files=[RESULTS], sql=[saving, changing]), monkeypatch, 120)
    assert [line[:4] for line in lines[1:3]] == ["  a2", "  a4"], "the rows are read when a2 has run"
    assert lines.index("a2: change public.orders on shop") < lines.index("a4: create reports/totals.parquet")
    tree = ended().tree()["report"]
    done = [tree["actions_completed"][0] | {"action_id": name} for name in ("a2", "a4")]
    counts = tree["actions_summary"] | {"completed": 2, "total": 2}
    kept = [{key: each[key] for key in each if key != "rows"} for each in (saving, changing)]
    report = tree | {"sql": kept, "actions_completed": done, "actions_summary": counts}
    told = text(render_outcome(ended(report=report)))
    assert told.index("ran       a2:") < told.index("ran       a4:")


def test_a_table_is_named_once_and_a_delete_of_no_row_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told = READING | {
        "database": None,
        "server": "shop at db.example:5432/shop as remit",
        "changes_database": True,
        "statements": [
            statement(1, "ALTER", [], ["customers"]),
            statement(2, "DELETE", [], ["public.orders"], rows_changed=0, destroys=True),
        ],
        "tables": [{"table": "public.customers", "inserted": 0, "updated": 2, "deleted": 0}],
    }
    lines = shown(previewed(files=[], sql=[told]), monkeypatch, 120)
    assert "a3: change public.customers on shop" in lines
    assert not any(line.startswith("  removes") for line in lines)


def test_without_diffs_all_that_sql_does_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only diffs of files are left out."""
    edited = CHANGE | {"action_id": "a1", "path": "notes.txt", "diff": "-two\n+TWO\n"}
    document = previewed(files=[edited, CHANGE], sql=[MIGRATION, READING], risk="HIGH")
    lines = shown(document, monkeypatch, 120, max_lines=0)
    assert "  a2: change data/shop.duckdb  5 statements, 1,206 rows changed" in lines
    told = "\n".join(lines)
    assert "removes   statements 1 (ALTER), 3 (DELETE) remove rows, columns or whole tables" in told
    assert told.count("bread") == 2
    assert "TWO" not in told


def test_the_text_of_statements_is_shown_with_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["ALTER TABLE orders\n\tDROP COLUMN draft", "UPDATE orders SET item = '\x1b[31m'", "DELETE FROM orders"]
    lines = shown(migration(texts=texts), monkeypatch, 120)
    start = lines.index("    1  ALTER TABLE orders")
    assert lines[start - 1 : start + 5] == [
        "",
        "    1  ALTER TABLE orders",
        "           DROP COLUMN draft",
        "    2  UPDATE orders SET item = '\\x1b[31m'",
        "    3  DELETE FROM orders",
        "",
    ]


def test_long_texts_are_broken_and_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    long = migration(texts=["SELECT 1\n" * 50, "x" * 300])
    lines = shown(long, monkeypatch, 80)
    assert "    ... 12 more lines of SQL: --full" in lines
    assert count_hidden_lines(long, 40) == 12
    assert count_hidden_lines(long, 0) == 12
    assert count_hidden_lines(long, None) == 0
    whole = shown(long, monkeypatch, 80, max_lines=None)
    assert sum("xxxx" in line for line in whole) == 5
    assert all(len(line) <= 80 for line in whole)


def test_a_file_that_is_replaced_by_rows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = RESULTS | {"operation": "MODIFY", "before": DIGEST, "size_before": 10}
    there = "  replaces  the existing file reports/totals.parquet"
    assert there in shown(previewed(files=[replaced], sql=[SAVING | {"replaces": True}]), monkeypatch, 120)
    assert there not in shown(previewed(files=[RESULTS], sql=[SAVING]), monkeypatch, 120)


def test_rows_that_are_inserted_or_updated_are_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    upserted = migration(statements=[statement(1, "UPSERT", [], ["orders"], rows_changed=2)])
    assert "    1  UPSERT     orders         2 added or changed" in shown(upserted, monkeypatch, 120)


def test_many_statements_are_cut_and_counted_before_the_approval(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [statement(number, "INSERT", [], ["t"], rows_changed=1) for number in range(1, 101)]
    document = migration(statements=many, left_out=7)
    lines = shown(document, monkeypatch, 80)
    assert "    ... 60 more statements: --full" in lines
    assert "    ... 7 more statements that are not listed" in lines
    assert count_hidden_lines(document, 40) == 67
    assert count_hidden_lines(document, None) == 7
    assert not any("60 more" in line for line in shown(document, monkeypatch, 80, max_lines=None))


def test_long_lists_of_tables_wrap_at_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [f"a_table_with_a_long_name_{number}" for number in range(9)]
    told = SqlPreviewed.from_tree(MIGRATION | {"statements": [statement(1, "INSERT", tables, ["t"], rows_changed=1)]})
    lines = text(render_sql(told, width=80)).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert all(any(name in line for line in lines) for name in tables)


def test_a_table_of_rows_is_as_wide_as_the_terminal_and_says_what_it_leaves_out() -> None:
    columns = [ToldColumn(name=f"column_{number}", type="VARCHAR") for number in range(20)]
    rows = [[f"{'漢字' * 12} {number}"] * 20 for number in range(3)]
    lines = text(render_rows(columns, rows, 80)).splitlines()
    from rich.cells import cell_len  # noqa: PLC0415 - what a character takes on a screen

    assert all(cell_len(line) <= 80 for line in lines)
    assert lines[-1] == "    ... 14 more columns"
    whole = text(render_rows(columns, rows, 100_000)).splitlines()
    assert len(whole) == 4, "to a file, nothing is cut"
    assert whole[1].count(rows[0][0]) == 20


def test_where_only_ascii_can_be_written_cells_are_cut_with_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.cli.plans.render_sql.speaks_unicode", lambda: False)
    columns = [ToldColumn(name="a", type="VARCHAR")]
    assert text(render_rows(columns, [["x" * 100]], 30)).splitlines()[1].isascii()


@pytest.mark.parametrize("evil", ["\x1b[2J", "\r", "\n  risk      LOW", "\u202e"])
def test_no_name_and_no_cell_reaches_the_terminal_as_an_order(evil: str) -> None:
    told: dict[str, Any] = MIGRATION | {
        "action_id": "a2",
        "database": f"x{evil}",
        "query_file": f"q{evil}",
        "saved_to": f"s{evil}.csv",
        "statements": [statement(1, "SELECT", [f"r{evil}"], [f"w{evil}"], rows_read=1)],
        "columns": [{"name": f"c{evil}", "type": f"t{evil}"}],
        "rows": [[f"v{evil}"]],
    }
    lines = list(render_preview(previewed(files=[CHANGE | {"path": f"x{evil}"}], sql=[told])))
    assert all(click.unstyle(line).isprintable() for line in lines)
    assert sum(click.unstyle(line).startswith("  risk ") for line in lines) == 1


def test_what_destroys_is_red_and_what_changes_is_yellow() -> None:
    lines = list(render_sql(SqlPreviewed.from_tree(MIGRATION), width=80))
    assert lines[1].startswith(click.style("    1  ALTER", fg="red", reset=False))
    assert lines[2].startswith(click.style("    2  UPDATE", fg="yellow", reset=False))
    assert click.unstyle(lines[5]) == lines[5]


def test_a_new_database_would_be_removed_and_a_second_change_goes_back_to_before_the_first() -> None:
    told = SqlTold.from_tree({key: value for key, value in MIGRATION.items() if key != "rows"})
    new = PreviewedFile.from_tree(CHANGE | {"operation": "CREATE", "before": None, "size_before": None})
    assert render_rollback_note(told, new) == "yes: the database is new, and would be removed"
    second = CHANGE | {"action_id": "a5", "size_before": 1}
    both = previewed(files=[CHANGE, second], sql=[MIGRATION, MIGRATION | {"action_id": "a5"}])
    assert text(render_preview(both)).count("is backed up as it is now (798.7 KB)") == 2


def test_the_text_warns_that_changes_of_a_database_in_memory_are_lost() -> None:
    told = SqlTold.from_tree(
        {"action_id": "a1", "connection": "scratch", "database": None, "changes_database": False}
        | {"statements": [statement(1, "CREATE", [], ["t"])], "saved_to": "x.csv"}
    )
    assert "  remark    the database is in memory, so its changes are lost" in text(render_sql(told))
    assert summarise(told) == "1 statement, 0 rows read"


def test_a_run_that_stands_tells_what_its_sql_did_and_shows_no_row() -> None:
    told = {key: value for key, value in MIGRATION.items() if key != "rows"}
    report = ended().tree()["report"] | {"sql": [told]}
    done = text(render_outcome(ended(report=report)))
    assert "  ran       a2: SQL on connection shop: 5 statements, 1,206 rows changed\n" in done
    assert "    2  UPDATE      orders  orders, prices  1,203 changed\n" in done
    assert "400 rows, 2 columns: id INTEGER, item VARCHAR" in done
    alone = text(render_outcome(ended(report=report | {"sql": [told | {"action_id": "a1"}]})))
    assert alone.startswith("SUCCESS  plan-1: 1 of 1 action, 1 file\n"), "a database has no lines"
    short = text(render_outcome(ended(report=report), diffs=False))
    assert "UPDATE" not in short
    assert "1,206 rows changed" in short


def test_a_run_that_was_undone_does_not_list_its_sql() -> None:
    told = {key: value for key, value in MIGRATION.items() if key != "rows"}
    report = ended("ROLLED_BACK").tree()["report"] | {"sql": [told]}
    assert "SQL" not in text(render_outcome(ended("ROLLED_BACK", report=report)))


def test_an_action_that_would_change_nothing_is_not_called_read_only() -> None:
    idle = MIGRATION | {"changes_database": False, "statements": [statement(1, "UPDATE", [], ["t"], rows_changed=0)]}
    shown = text(render_preview(previewed(files=[], sql=[idle, SAVING])))
    assert "a2: no change of data/shop.duckdb\n" in shown
    assert "nothing to undo: it changes nothing\n" in shown
    assert "a4: no change of reports/totals.parquet\n" in shown


@pytest.mark.parametrize(
    "kind, right", [("DECIMAL(9,2)", True), ("UBIGINT", True), ("INTERVAL", False), ("INTEGER[]", False)]
)
def test_numbers_stand_on_the_right(kind: str, right: bool) -> None:  # noqa: FBT001 - as the table says
    lines = text(render_rows([ToldColumn(name="wide name", type=kind)], [["7"]], 80)).splitlines()
    assert (lines[1] == "    " + "7".rjust(9)) is right
