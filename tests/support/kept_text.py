"""Everything that Remit has written below a folder, as text, except the stored previews and their prepared files."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

STORED_PREVIEWS: Final = frozenset({"plan_previews", "proposal_previews"})
_STORE: Final = "ledger.sqlite3"
_PREPARED: Final = "prepared"


def read_kept(folder: Path) -> dict[Path, str]:
    """Return the text of each file. That of the store is the text of its rows."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name == _STORE:
            found[path] = _rows_of(path)
        elif path.is_file() and not path.name.startswith(_STORE) and _PREPARED not in path.parts:
            found[path] = path.read_bytes().decode("latin-1")
    return found


def _rows_of(store: Path) -> str:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert set(tables) >= STORED_PREVIEWS
        searched = (name for name in tables if name not in STORED_PREVIEWS)
        rows = (row for name in searched for row in connection.execute(f"SELECT * FROM {name}"))
        return "\n".join(map(str, rows))
