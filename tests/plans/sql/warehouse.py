"""A database with something of every kind in it, statements that change any of it, and all that can be told of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
from hypothesis import strategies as st

WAREHOUSE: Final = """
CREATE SCHEMA attic;
CREATE TYPE mood AS ENUM ('low', 'fine', 'high');
CREATE TYPE spot AS STRUCT(x INTEGER, y INTEGER);
CREATE SEQUENCE ids START 100;
CREATE SEQUENCE ticks INCREMENT 5 MINVALUE 0 MAXVALUE 50 CYCLE;
CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, mood mood, stands spot);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY DEFAULT nextval('ids'),
    person INTEGER REFERENCES people (id),
    amount DECIMAL(9, 2) CHECK (amount >= 0),
    tags VARCHAR[]
);
CREATE TABLE plain (k INTEGER, v VARCHAR, n DOUBLE);
CREATE TABLE marked (k INTEGER, v VARCHAR DEFAULT 'none');
CREATE INDEX marked_by_v ON marked (v);
CREATE UNIQUE INDEX marked_by_k ON marked (k);
CREATE TABLE attic.old (a INTEGER, doubled INTEGER GENERATED ALWAYS AS (a * 2));
CREATE VIEW rich AS SELECT people.name, sum(amount) AS total FROM people JOIN orders ON person = people.id GROUP BY 1;
CREATE MACRO twice(a) AS a * 2;
CREATE MACRO firsts(most) AS TABLE SELECT * FROM plain ORDER BY ALL LIMIT most;
COMMENT ON TABLE plain IS 'of no use';
COMMENT ON COLUMN plain.v IS 'words';
INSERT INTO people SELECT range, 'p' || range, 'fine', {'x': range, 'y': -range} FROM range(6);
INSERT INTO orders (person, amount, tags) SELECT range % 6, range * 1.5, ['a', 'b' || range] FROM range(20);
INSERT INTO plain SELECT range, 'v' || range % 7, range / 3 FROM range(300);
INSERT INTO marked SELECT range, 'm' || range % 5 FROM range(40);
INSERT INTO attic.old (a) VALUES (1), (NULL), (3);
DELETE FROM plain WHERE k % 11 = 0;
SELECT nextval('ticks') FROM range(3);
"""

_NUMBERS: Final = st.integers(-3, 320)
_NEW: Final = st.sampled_from(["n0", "n1", "n2"])
"""Names of what a sequence makes, so few that its later statements meet them again."""
_COLUMNS: Final = st.sampled_from(["k", "v", "n"])
_WORDS: Final = st.sampled_from(["", "x", "é", "it''s", "line\nbreak", "NULL", "ab" * 300])

ROWS: Final = (
    "INSERT INTO plain VALUES ({number}, '{word}', {number} / 7)",
    "INSERT INTO plain BY NAME SELECT range AS k, '{word}' AS v FROM range(abs({number}) * 20)",
    "INSERT INTO plain SELECT * FROM firsts(abs({number}))",
    "INSERT INTO people VALUES (abs({number}) + 10, '{word}', 'low', NULL)",
    (
        "INSERT INTO people VALUES ({number} % 12, '{word}', 'high', {{'x': 1, 'y': 2}}) "
        "ON CONFLICT DO UPDATE SET name = excluded.name, mood = 'high'"
    ),
    "INSERT INTO people VALUES ({number} % 12, '{word}', NULL, NULL) ON CONFLICT DO NOTHING",
    "INSERT INTO orders (person, amount) VALUES (abs({number}) % 6, abs({number})) RETURNING id",
    "INSERT INTO orders (person, amount, tags) SELECT id, 3, ['{word}'] FROM people WHERE id < 6",
    "INSERT INTO marked (k) VALUES (1000 + {number})",
    "INSERT INTO marked VALUES ({number}, '{word}') ON CONFLICT (k) DO UPDATE SET v = excluded.v",
    "INSERT INTO attic.old (a) SELECT k FROM plain WHERE k < {number}",
    "INSERT INTO {new} SELECT k, v FROM plain WHERE k > {number}",
    "UPDATE plain SET v = '{word}', n = n + 1 WHERE k % 5 = abs({number}) % 5",
    "UPDATE plain SET v = marked.v FROM marked WHERE plain.k = marked.k",
    "UPDATE people SET mood = 'low', stands = {{'x': {number}, 'y': 0}} WHERE id % 2 = 0",
    "UPDATE orders SET amount = amount + twice(2), tags = list_append(tags, '{word}')",
    "UPDATE marked SET v = v || '{word}' WHERE k > {number}",
    "UPDATE attic.old SET a = {number} RETURNING doubled",
    "DELETE FROM plain WHERE k > {number}",
    "DELETE FROM plain WHERE v IN (SELECT v FROM plain GROUP BY v HAVING count(*) > 30)",
    "DELETE FROM orders WHERE amount > abs({number}) RETURNING *",
    "DELETE FROM marked USING plain WHERE marked.k = plain.k AND plain.n < {number}",
    "TRUNCATE attic.old",
    (
        "MERGE INTO plain USING (SELECT range AS k FROM range(290, 310)) AS s ON plain.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = '{word}' WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'merged', 0)"
    ),
    "MERGE INTO marked USING (SELECT 5 AS k) AS s USING (k) WHEN MATCHED THEN DELETE",
    "SELECT nextval('ids'), nextval('ticks') FROM range(abs({number}) % 7 + 1)",
    "INSERT INTO plain SELECT nextval('ticks'), '{word}', 0 FROM range(4)",
)
SHAPES: Final = (
    "CREATE TABLE {new} (k INTEGER PRIMARY KEY, v VARCHAR)",
    "CREATE OR REPLACE TABLE {new} AS SELECT k, v FROM plain WHERE k < {number}",
    "CREATE TABLE IF NOT EXISTS {new} (k INTEGER REFERENCES people (id), v mood DEFAULT 'fine')",
    "CREATE TABLE attic.{new} (k INTEGER UNIQUE, stands spot, CHECK (k > 0))",
    "CREATE TABLE {new}_of (k INTEGER REFERENCES {new} (k))",
    "CREATE OR REPLACE TABLE marked AS SELECT k, n FROM plain",
    "ALTER TABLE plain ADD COLUMN {new} INTEGER DEFAULT {number}",
    "ALTER TABLE plain ADD COLUMN IF NOT EXISTS {new} spot",
    "ALTER TABLE plain DROP COLUMN {column}",
    "ALTER TABLE plain RENAME COLUMN {column} TO {new}",
    "ALTER TABLE plain ALTER k TYPE BIGINT",
    "ALTER TABLE plain ALTER n TYPE VARCHAR USING 'n' || n::VARCHAR",
    "ALTER TABLE plain ALTER {column} SET DEFAULT NULL",
    "ALTER TABLE plain ALTER k SET NOT NULL",
    "ALTER TABLE plain RENAME TO {new}",
    "ALTER TABLE marked ALTER v SET DEFAULT '{word}'",
    "ALTER TABLE attic.old ADD COLUMN {new} VARCHAR",
    "ALTER TABLE people RENAME COLUMN name TO {new}",
    "DROP TABLE {new}",
    "DROP TABLE IF EXISTS {new}",
    "DROP TABLE orders",
    "DROP TABLE people",
    "DROP TABLE marked",
    "CREATE INDEX {new}_by_k ON plain ({column})",
    "CREATE UNIQUE INDEX {new}_by_k ON {new} (k)",
    "CREATE INDEX by_amount ON orders (amount, person)",
    "DROP INDEX marked_by_v",
    "DROP INDEX IF EXISTS {new}_by_k",
    "CREATE VIEW {new} AS SELECT {column} FROM plain WHERE k > {number}",
    "CREATE OR REPLACE VIEW rich AS SELECT twice(k) AS total FROM plain",
    "ALTER VIEW rich RENAME TO {new}",
    "DROP VIEW rich",
    "DROP VIEW IF EXISTS {new}",
    "CREATE SEQUENCE {new} START 7 INCREMENT -2 MAXVALUE 9",
    "CREATE OR REPLACE SEQUENCE ticks START 3",
    "DROP SEQUENCE ticks",
    "CREATE MACRO {new}(a) AS twice(a) + {number}",
    "CREATE OR REPLACE MACRO twice(a) AS a + {number}",
    "CREATE OR REPLACE MACRO firsts(most) AS TABLE SELECT 1 AS k",
    "DROP MACRO twice",
    "DROP MACRO TABLE firsts",
    "CREATE TYPE {new} AS ENUM ('{word}', 'other')",
    "DROP TYPE IF EXISTS {new}",
    "CREATE SCHEMA {new}",
    "DROP SCHEMA attic CASCADE",
    "DROP SCHEMA IF EXISTS {new}",
    "COMMENT ON TABLE plain IS '{word}'",
    "COMMENT ON COLUMN plain.v IS NULL",
    "COMMENT ON VIEW rich IS '{word}'",
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(ROWS) | st.sampled_from(SHAPES))
    return text.format(number=draw(_NUMBERS), word=draw(_WORDS), new=draw(_NEW), column=draw(_COLUMNS))


def sequences() -> st.SearchStrategy[list[list[str]]]:
    """The texts of several actions, each of several statements."""
    return st.lists(st.lists(statements(), min_size=1, max_size=4), min_size=1, max_size=2)


_CATALOGUE: Final = (
    "SELECT schema_name, comment FROM duckdb_schemas() WHERE NOT internal",
    "SELECT schema_name, table_name, comment, sql FROM duckdb_tables() WHERE NOT internal",
    (
        "SELECT schema_name, table_name, column_name, column_index, comment, column_default, is_nullable, data_type "
        "FROM duckdb_columns() WHERE NOT internal"
    ),
    "SELECT schema_name, table_name, constraint_type, constraint_text FROM duckdb_constraints()",
    "SELECT schema_name, table_name, index_name, is_unique, sql FROM duckdb_indexes()",
    "SELECT schema_name, view_name, comment, sql FROM duckdb_views() WHERE NOT internal",
    (
        "SELECT schema_name, sequence_name, start_value, min_value, max_value, increment_by, cycle, last_value, sql "
        "FROM duckdb_sequences()"
    ),
    (
        "SELECT schema_name, function_name, function_type, parameters, macro_definition FROM duckdb_functions() "
        "WHERE NOT internal"
    ),
    "SELECT schema_name, type_name, logical_type, labels FROM duckdb_types() WHERE NOT internal",
)

ALONE: Final[dict[str, str | bool | int | float | list[str]]] = {"threads": 1}
"""Quicker for so little, and as the sandboxed engine is set: rows come in the same order."""

Dump = dict[str, Any]


def dump(path: Path) -> Dump:
    """All that is in it: schemas, tables with their rows, constraints, indexes, views, sequences, macros, types."""
    with duckdb.connect(str(path), read_only=True, config=ALONE) as database:
        told: Dump = {query: sorted(map(repr, database.execute(query).fetchall())) for query in _CATALOGUE}
        tables = database.execute("SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        for schema, table in tables:
            told[f"{schema}.{table}"] = database.execute(f'SELECT * FROM "{schema}"."{table}" ORDER BY ALL').fetchall()
        return told


def run_by_hand(path: Path, texts: Sequence[str]) -> str:
    """Each text as one transaction, without Remit. Why it fails, or nothing."""
    with duckdb.connect(str(path), config=ALONE) as database:
        try:
            for text in texts:
                database.execute(f"BEGIN; {text}; COMMIT")
        except duckdb.Error as problem:
            return str(problem)
    return ""
