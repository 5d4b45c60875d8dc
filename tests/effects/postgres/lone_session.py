"""A process that begins a session, says so, and waits to be told: `commit`, or to be killed."""

import json
import sys
from pathlib import Path

from remit.contracts.config.config import PostgresqlConnection
from remit.plans.engines.database_files import WorkFolder
from remit.plans.engines.postgres import PostgresEngine, SqlText
from remit.plans.engines.postgres_servers import find_server
from tests.effects.postgres.postgres_sandbox import make_host


def main(url: str, root: str, text: str) -> None:
    connection = PostgresqlConnection(type="postgresql", url_variable="SHOP_URL")
    server = find_server("shop", connection, {"SHOP_URL": url})
    host = make_host(Path(root))
    engine = PostgresEngine(lambda: host, "task-1", lambda: False)
    texts = [SqlText(1, "", text.encode(), {}, expect_results=False, results=None, form=None)]
    with engine.begin(
        server, texts, reads_only=False, seconds=30, folder=WorkFolder.make(Path(root) / "work")
    ) as session:
        say(json.dumps(session.result.transaction._asdict()))
        if sys.stdin.readline() == "commit\n":
            session.commit()
            say("committed")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
