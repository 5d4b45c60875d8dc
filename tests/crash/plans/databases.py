"""Databases among the files of a plan: made of a text, and compared by what is in them.

The engine is loaded only where it is needed, in the processes that seed and judge: what is forked to be stopped has one
thread.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import duckdb

DATABASE_SUFFIX: Final = ".duckdb"

_SHAPE: Final = "SELECT sql FROM duckdb_tables() UNION ALL SELECT sql FROM duckdb_indexes() ORDER BY 1"


def make(path: Path, text: str) -> None:
    import duckdb  # noqa: PLC0415 - see above

    with duckdb.connect(str(path)) as database:
        database.execute(text)


def made_of(text: str) -> str:
    """What is in a database that this text makes."""
    import duckdb  # noqa: PLC0415 - see above

    with duckdb.connect(":memory:") as database:
        database.execute(text)
        return _told(database)


def rows_and_shape(path: Path) -> str:
    """What is in this one. Nothing is written to it, nor beside it."""
    import duckdb  # noqa: PLC0415 - see above

    try:
        with duckdb.connect(str(path), read_only=True) as database:
            return _told(database)
    except duckdb.Error as problem:
        return f"no database: {problem}"


def _told(database: "duckdb.DuckDBPyConnection") -> str:
    shape = database.execute(_SHAPE).fetchall()
    tables = database.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
    rows = {name: database.execute(f'SELECT * FROM "{name}" ORDER BY ALL').fetchall() for (name,) in tables}
    return repr((shape, rows))
