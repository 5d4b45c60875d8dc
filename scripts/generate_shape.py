"""Writes the schema that the PostgreSQL migrations create, so that verification can compare with it.

Run it after you add a migration: `python scripts/generate_shape.py postgresql://...`, with a server on which a schema
can be created and dropped. A test fails if the file is out of date.
"""

import contextlib
import json
import secrets
import sys
from pathlib import Path
from typing import Final

from remit.core.ids import system_clock
from remit.store.migrations_runner import migrate
from remit.store.postgresql import PostgresStore
from remit.store.schema_check import SHIPPED_POSTGRESQL, Shape, present_shape

PLACE: Final = Path(__file__).resolve().parent.parent / "src" / "remit" / "store" / SHIPPED_POSTGRESQL


def render_shape(shape: Shape) -> str:
    return json.dumps(shape, indent=1, sort_keys=True) + "\n"


def main(url: str) -> None:
    store = PostgresStore(url, f"remit_shape_{secrets.token_hex(4)}")
    migrate(store, system_clock)
    with store.reading() as connection:
        shape = present_shape(connection)
    with contextlib.closing(store.connect()) as connection:
        connection.script(f'DROP SCHEMA "{store.schema}" CASCADE')
    store.close()
    PLACE.write_text(render_shape(shape), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
