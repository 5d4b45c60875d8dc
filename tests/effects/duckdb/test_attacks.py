"""Every hostile text of the list, twice: the check refuses it, and without the check the other limits stop it."""

import contextlib
from typing import Final

import pytest

from remit.core.errors import Reason, RefusedError, RemitError
from remit.effects.duckdb.statements import analyse
from remit.sandbox.host import SandboxHost
from tests.effects.duckdb.duckdb_sandbox import UNCHECKED, Shop, make_database

OUTSIDE: Final = "/outside"
"""A placeholder in the texts below. A run replaces it by a real folder that exists and is writable."""

DENIED: Final = {
    "001 read_csv": "SELECT * FROM read_csv('/etc/passwd', sep=':', header=false)",
    "004 read_text": "SELECT content FROM read_text('/etc/passwd')",
    "005 read_blob": "SELECT * FROM read_blob('/etc/shadow')",
    "006 glob": "SELECT * FROM glob('/etc/*')",
    "008 read_json_auto": "SELECT * FROM read_json_auto('/outside/agentdojo.jsonl')",
    "010 parquet_metadata": "SELECT * FROM parquet_metadata('/tmp/x.parquet')",
    "012 copy to": "COPY (SELECT 1) TO '/outside/pwn.csv'",
    "013 copy to partition": "COPY (SELECT 1 a,2 b) TO '/outside/pwn_dir' (FORMAT csv, PARTITION_BY (a))",
    "014 copy from": "CREATE TABLE t0(a VARCHAR); COPY t0 FROM '/etc/passwd' (DELIMITER ':')",
    "015 export database": "EXPORT DATABASE '/outside/pwn_exp'",
    "019 attach sqlite": "ATTACH '/tmp/l.db' AS s (TYPE sqlite)",
    "020 attach postgres": "ATTACH 'host=127.0.0.1 dbname=postgres' AS p (TYPE postgres)",
    "022 install": "INSTALL httpfs",
    "023 load name": "LOAD httpfs",
    "025 force install": "FORCE INSTALL spatial FROM 'http://127.0.0.1:9/'",
    "026 install community": "INSTALL shellfs FROM community",
    "027 http read": "SELECT * FROM read_csv('http://169.254.169.254/latest/meta-data')",
    "028 s3": "SELECT * FROM 's3://b/k.parquet'",
    "029 unset lock": "SET lock_configuration=false",
    "031 pragma enable ext": "PRAGMA enable_external_access=true",
    "032 set allowed_directories": "SET allowed_directories=['/']",
    "033 allow unsigned": "SET allow_unsigned_extensions=true",
    "034 ext dir": "SET extension_directory='/tmp/e'",
    "035 temp dir": "SET temp_directory='/etc'",
    "038 profile output": "PRAGMA profile_output='/outside/pwn_prof2'",
    "039 query log": "SET log_query_path='/outside/pwn.log'; SELECT 1",
    "040 enable_logging file": "CALL enable_logging(storage='file', storage_config={'path':'/outside/pwn_log'})",
    "041 secret": "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "044 getenv": "SELECT getenv('PATH')",
    "048 set threads": "SET threads=64",
    "050 set variable then read": "SET VARIABLE f='/etc/passwd'; SELECT * FROM read_text(getvariable('f'))",
    "051 prepared": "PREPARE p AS SELECT * FROM read_text($1); EXECUTE p('/etc/passwd')",
    "056 json_execute": (
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''/etc/passwd'')'))"
    ),
    "062 multi stmt": "SELECT 1; COPY (SELECT 1) TO '/outside/pwn2.csv'",
}
"""Texts that the check refuses and that, without the check, the engine's settings and the sandbox stop."""

DENIED_BY_THE_LOOK_ALONE: Final = {
    "063 commit break-out": "COMMIT; DROP TABLE victim; BEGIN",
    "064 rollback break-out": "ROLLBACK; DROP TABLE victim",
    "077 1000 statements in one string": "INSERT INTO victim VALUES (1);" * 1_000,
    "078 statement hidden after a NUL": "SELECT 1\0; DROP TABLE victim",
}
"""Texts that, without the check, harm only the copy that they run on."""

NOT_FOR_READING: Final = {
    "065 cte insert": "WITH x AS (SELECT 1) INSERT INTO victim SELECT 99 FROM x",
    "066 explain analyze insert": "EXPLAIN ANALYZE INSERT INTO victim VALUES (77)",
    "068 nextval": "SELECT nextval('sq')",
}

ALLOWED: Final = {
    "076 regex": "SELECT regexp_matches(repeat('a',40)||'!', '^(a+)+$')",
    "088 UPDATE without WHERE": "UPDATE t SET a=1",
    "089 DROP TABLE in lease": "DROP TABLE t",
    "090 plain select": "SELECT count(*) FROM t",
    "091 plain insert": "INSERT INTO t (a) VALUES (1)",
    "094 comment with keyword": "SELECT 1 -- COPY TO",
}

HIDDEN: Final = {
    "in quotes": "SELECT * FROM \"read_text\"('/etc/passwd')",
    "in capitals": "SELECT * FROM READ_TEXT('/etc/passwd')",
    "behind a comment": "SELECT * FROM read_text/*/**/*/('/etc/passwd')",
    "behind a space of no width": "SELECT * FROM read_text\u200b('/etc/passwd')",
    "behind a space that does not break": "SELECT * FROM read_text\u00a0('/etc/passwd')",
    "with its schema": "SELECT * FROM system.main.read_text('/etc/passwd')",
    "as a method": "SELECT 'PATH'.getenv()",
    "in a macro": "CREATE MACRO m() AS TABLE SELECT * FROM read_text('/etc/passwd')",
    "in a macro that is a value": "CREATE OR REPLACE MACRO m() AS getenv('PATH')",
    "in a macro of its argument": "CREATE TEMP MACRO m(a) AS TABLE FROM read_text(a)",
    "in a view": "CREATE VIEW w AS SELECT * FROM read_csv('/etc/passwd')",
    "in an insert": "INSERT INTO t SELECT 1, content FROM read_text('/etc/passwd')",
    "in an update": "UPDATE t SET b = (SELECT content FROM read_text('/etc/passwd'))",
    "in a default": "CREATE TABLE d (a VARCHAR DEFAULT getenv('PATH'))",
    "in an explanation": "EXPLAIN SELECT * FROM read_text('/etc/passwd')",
    "a file joined": "SELECT * FROM t JOIN '/etc/passwd' ON true",
    "a file in an insert": "INSERT INTO t SELECT * FROM '/etc/passwd'",
    "copy in an expression": "WITH x AS (COPY (SELECT 1) TO '/outside/x') SELECT * FROM x",
    "copy in an expression, materialized": "WITH x AS MATERIALIZED (COPY t TO '/outside/x') SELECT * FROM x",
    "copy in the expression of an insert": "WITH x AS (COPY t TO '/outside/x') INSERT INTO t SELECT 1, 'a' FROM x",
    "copy in what a table is made of": "CREATE TABLE n AS WITH x AS (COPY t TO '/outside/x') SELECT * FROM x",
    "copy in the expression of a merge": (
        "WITH x AS (COPY t TO '/outside/x') MERGE INTO t USING x ON true WHEN MATCHED THEN DELETE"
    ),
    "a text as SQL": "SELECT * FROM query('SELECT 1')",
    "a text as a table": "SELECT * FROM query_table('t')",
    "a secret that stays": "CREATE PERSISTENT SECRET s (TYPE s3)",
    "a secret replaced": "CREATE OR REPLACE SECRET s (TYPE s3)",
    "a secret dropped": "DROP SECRET s",
    "a trigger": "CREATE TRIGGER r AFTER INSERT ON t FOR EACH ROW DELETE FROM victim",
    "settings": "SELECT * FROM duckdb_settings()",
    "settings by another name": "SELECT * FROM pg_settings",
    "one setting": "SELECT current_setting('threads')",
    "a log": "SELECT write_log('x')",
    "logging": "SELECT * FROM enable_logging()",
    "use": "USE memory",
    "reset": "RESET threads",
    "import": "IMPORT DATABASE '/outside'",
    "copy a database": "COPY FROM DATABASE shop TO memory",
    "checkpoint": "CHECKPOINT",
    "vacuum": "VACUUM",
    "detach": "DETACH shop",
    "deallocate": "DEALLOCATE p",
    "a kind that has no name": "UPDATE EXTENSIONS",
    "a pivot that is two statements": "PIVOT t ON a USING count(*)",
}


@pytest.mark.req("PX-19")
def test_a_text_that_reaches_outside_its_tables_is_refused_before_it_runs(subtests: pytest.Subtests) -> None:
    for text in [*(DENIED | DENIED_BY_THE_LOOK_ALONE | HIDDEN).values()]:
        with subtests.test(text):
            with pytest.raises(RefusedError) as refused:
                analyse(text)
            assert refused.value.reason is Reason.SQL_REFUSED
            assert refused.value.next_step
            assert "/etc" not in str(refused.value)


@pytest.mark.req("PX-19")
def test_the_refusal_comes_from_the_sandboxed_process_and_leaves_the_file_as_it_was(shop: Shop) -> None:
    before = shop.digest
    with pytest.raises(RefusedError, match=r"statement 2 \(COPY\)") as refused:
        shop.run("INSERT INTO victim VALUES (2); COPY victim TO '/outside/x'")
    assert refused.value.reason is Reason.SQL_REFUSED
    assert shop.digest == before


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("text", DENIED.values(), ids=DENIED.keys())
def test_without_the_check_the_settings_and_the_sandbox_stop_it(shop: Shop, text: str) -> None:
    with pytest.raises(RemitError) as stopped:
        shop.run(text.replace(OUTSIDE, str(shop.outside)), effect=UNCHECKED)
    assert stopped.value.reason in (Reason.SQL_FAILED, Reason.SQL_REFUSED, Reason.EFFECT_FAILED)
    assert "root:" not in str(stopped.value)
    assert list(shop.outside.iterdir()) == []


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("text", DENIED_BY_THE_LOOK_ALONE.values(), ids=DENIED_BY_THE_LOOK_ALONE.keys())
def test_texts_that_only_the_check_stops_could_reach_only_the_copy(shop: Shop, text: str) -> None:
    with contextlib.suppress(RemitError):
        shop.run(text, effect=UNCHECKED)
    assert list(shop.outside.iterdir()) == []
    assert {path.name for path in shop.work.iterdir()} <= {"shop.duckdb", "shop.duckdb.wal"}


SETTINGS: Final = {
    "a file": "SELECT * FROM read_text('{work}/note.txt')",
    "all files": "SELECT * FROM glob('{work}/*')",
    "a new file": "COPY t TO '{work}/new.csv'",
    "another database": "ATTACH '{work}/other.duckdb'",
    "more memory": "SET memory_limit='64GB'",
    "a variable of the engine": "SET explain_output='physical_only'",
}
"""Texts about files that the sandbox allows, so only the engine's settings stop them."""


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("text", SETTINGS.values(), ids=SETTINGS.keys())
def test_the_settings_of_the_engine_stop_it_where_the_sandbox_allows_it(shop: Shop, text: str) -> None:
    (shop.work / "note.txt").write_text("a note")
    with pytest.raises(RemitError) as stopped:
        shop.run(text.replace("{work}", str(shop.work)), effect=UNCHECKED)
    assert stopped.value.reason in (Reason.SQL_FAILED, Reason.SQL_REFUSED)
    assert {path.name for path in shop.work.iterdir()} <= {"note.txt", "shop.duckdb", "shop.duckdb.wal"}


BARE: Final = {
    "a file": "SELECT content FROM read_text('/etc/passwd')",
    "many files": "SELECT * FROM glob('/etc/*')",
    "the environment of a process": "SELECT * FROM read_blob('/proc/self/environ')",
    "a file beside the folder": "SELECT content FROM read_text('/outside/diary.txt')",
    "a new file": "COPY (SELECT 1) TO '/outside/pwn.csv'",
    "new folders": "COPY (SELECT 1 a, 2 b) TO '/outside/pwn' (FORMAT csv, PARTITION_BY (a))",
    "a new database": "ATTACH '/outside/pwn.db'",
    "all of it": "EXPORT DATABASE '/outside/pwn'",
    "an extension": "INSTALL httpfs",
    "an address": "SELECT * FROM read_csv('http://127.0.0.1:9/')",
}


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("text", BARE.values(), ids=BARE.keys())
def test_the_sandbox_stops_it_without_the_settings_of_the_engine(shop: Shop, text: str) -> None:
    (shop.outside / "diary.txt").write_text("dear diary")
    try:
        seen = shop.run(text.replace(OUTSIDE, str(shop.outside)), effect=UNCHECKED, bare=True)["seen"]
    except RemitError as stopped:
        seen = str(stopped)
    assert "root:" not in seen
    assert "dear diary" not in seen
    assert "/etc/hostname" not in seen
    assert [path.name for path in shop.outside.iterdir()] == ["diary.txt"]


def test_without_settings_a_file_that_the_sandbox_allows_can_be_read(shop: Shop) -> None:
    (shop.work / "note.txt").write_text("a note")
    seen = shop.run(f"SELECT content FROM read_text('{shop.work}/note.txt')", effect=UNCHECKED, bare=True)["seen"]
    assert seen == "[('a note',)]"


@pytest.mark.req("PX-18", "PX-19")
@pytest.mark.parametrize("text", NOT_FOR_READING.values(), ids=NOT_FOR_READING.keys())
def test_a_change_is_refused_in_read_mode(shop: Shop, text: str) -> None:
    before = shop.digest
    with pytest.raises(RefusedError) as refused:
        shop.run(text, mode="read")
    assert refused.value.reason is Reason.SQL_REFUSED
    assert shop.digest == before


@pytest.mark.req("PX-19")
def test_explaining_a_write_does_not_run_it(shop: Shop) -> None:
    """Attack 066 as well: with ANALYZE it is refused in both modes."""
    with pytest.raises(RefusedError, match="ANALYZE"):
        shop.run("EXPLAIN (ANALYZE, FORMAT json) DELETE FROM victim")
    assert shop.run("EXPLAIN DELETE FROM victim")["rows"][0][0] == "logical_plan"
    assert shop.ask("SELECT count(*) FROM victim") == [(1,)]


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED.keys())
def test_an_honest_text_runs(shop: Shop, text: str) -> None:
    assert len(shop.run(text)["statements"]) == 1


@pytest.mark.req("PX-18")
def test_093_a_column_may_be_named_like_a_command(shop: Shop) -> None:
    shop.run('CREATE TABLE odd ("copy" INTEGER, "attach" INTEGER); INSERT INTO odd (copy, attach) VALUES (1, 2)')
    assert shop.run('SELECT "copy", "attach" FROM odd')["rows"] == [["1", "2"]]


@pytest.mark.req("PX-18")
def test_079_a_parameter_never_becomes_a_name(shop: Shop) -> None:
    shop.run('CREATE TABLE "?" (a INTEGER)')
    assert shop.run('SELECT * FROM "?"')["statements"][0]["reads"] == ["?"]
    with pytest.raises(RefusedError, match="not used"):
        shop.run('SELECT * FROM "?"', parameters={"1": "x; DROP"})


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("text", ["SELECT * FROM v_over_secret", 'SELECT * FROM "SECRET"', "FROM (FROM secret)"])
def test_080_081_the_table_behind_a_view_or_in_another_case_is_reported(shop: Shop, text: str) -> None:
    assert shop.run(text)["statements"][0]["reads"] == ["secret"]


@pytest.mark.req("PX-19")
def test_087_a_copy_to_an_allowed_file_is_refused_and_the_message_says_what_to_use(shop: Shop) -> None:
    with pytest.raises(RefusedError, match="COPY") as refused:
        shop.run(f"COPY t TO '{shop.work}/out.csv'")
    assert "save_results_to" in refused.value.next_step


@pytest.mark.req("PX-19")
def test_085_no_value_is_in_the_text_of_an_error(shop: Shop) -> None:
    with pytest.raises(RemitError, match="cannot be converted") as failed:
        shop.run("SELECT CAST(pw AS INT) FROM secret")
    assert failed.value.reason is Reason.SQL_FAILED
    assert "hunter2" not in str(failed.value.as_json())


def test_the_host_still_works_after_all_attacks(shop: Shop, host: SandboxHost) -> None:
    assert shop.run("SELECT 1")["rows"] == [["1"]]


# --- file names in the place of tables -------------------------------------------------------------------------------

FILES: Final = (
    "TABLE '{file}'",
    "SELECT * FROM t, '{file}'",
    "FROM ('{file}')",
    'FROM "{file}"',
    "DESCRIBE '{file}'",
    "SUMMARIZE '{file}'",
    "UNPIVOT '{file}' ON a",
    "PIVOT '{file}' ON a IN (1)",
    "DELETE FROM t USING '{file}'",
    "UPDATE t SET a = 1 FROM '{file}'",
    "MERGE INTO t USING '{file}' AS f ON t.a = f.a WHEN MATCHED THEN DELETE",
    "WITH x AS (TABLE '{file}') FROM x",
    "CREATE TABLE n AS TABLE '{file}'",
    "CREATE VIEW n AS TABLE '{file}'",
)


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("text", FILES)
def test_a_file_in_the_place_of_a_table_is_refused_however_it_is_written(shop: Shop, text: str) -> None:
    """Also a file that the sandbox allows."""
    file = shop.work / "f.csv"
    file.write_text("a,b\n1,dear diary\n")
    for name in (str(file), "f.csv", "s3://bucket/f.parquet"):
        with pytest.raises(RefusedError) as refused:
            shop.run(text.replace("{file}", name))
        assert refused.value.reason is Reason.SQL_REFUSED
        assert "file" in refused.value.what
        assert "dear diary" not in str(refused.value)


PATHS: Final = (
    "FROM duckdb_databases",
    "SELECT path FROM duckdb_databases()",
    "FROM pragma_database_list",
    "FROM main.pragma_database_list",
    'FROM "Pragma_Database_List"',
    "SHOW DATABASES",
    "SHOW memory_limit",
    "FROM (SHOW allowed_paths)",
    "CREATE VIEW w AS FROM duckdb_databases",
)


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("text", PATHS)
def test_the_path_of_the_copy_and_the_settings_of_the_engine_cannot_be_read(shop: Shop, text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        shop.run(text)
    assert refused.value.reason is Reason.SQL_REFUSED
    assert str(shop.work) not in str(refused.value)


@pytest.mark.req("PX-19")
@pytest.mark.parametrize(
    "how", ["SELECT * FROM paths", "SELECT * FROM where_it_is()", "INSERT INTO t SELECT 1, path FROM paths"]
)
def test_nor_through_a_view_or_a_macro_that_is_in_the_database(shop: Shop, how: str) -> None:
    make_database(
        shop.database,
        "CREATE VIEW paths AS SELECT path FROM duckdb_databases();"
        "CREATE MACRO where_it_is() AS TABLE SELECT file FROM pragma_database_list",
    )
    with pytest.raises(RefusedError, match="a view or a macro of the database calls it") as refused:
        shop.run(how)
    assert refused.value.reason is Reason.SQL_REFUSED
