"""One of two processes that race for the same keys. Started by test_claims_race.py.

    claim_racer.py NAME PLACE ROUNDS     (PLACE: a file, or the URL of a PostgreSQL database)

Reads one byte from standard input before each round, so that both set off together; prints one JSON line a round.
"""

import json
import sys
from contextlib import closing
from pathlib import Path

from remit.store.claims import ClaimAcquired, ClaimCompleted, ClaimKey, claim, finish_claim
from remit.store.connection import Store
from remit.store.postgresql import PostgresStore
from remit.store.sqlite import SqliteStore

AT = "2026-01-31T09:30:00Z"
SCHEMA = "remit_race"


def open_store(place: str) -> Store:
    return PostgresStore(place, SCHEMA) if place.startswith("postgresql:") else SqliteStore(Path(place))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    name, place, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    said = []
    with closing(open_store(place).connect()) as connection:
        say("ready")
        for number in range(rounds):
            sys.stdin.buffer.read(1)
            key = ClaimKey("tenant", "task", f"task-{number}")
            connection.begin(write=True)
            found = claim(connection, key, "sha256:" + "a" * 64, AT)
            connection.commit()
            saw = type(found).__name__
            result = found.result if isinstance(found, ClaimCompleted) else None
            if isinstance(found, ClaimAcquired):
                result = f'{name} did task-{number}: é \u2028 \U0001f600 \\ "'
                connection.begin(write=True)
                finish_claim(connection, found, result, AT)
                connection.commit()
            said.append([saw, result])
            say("done")
    say(json.dumps(said))


if __name__ == "__main__":
    main()
