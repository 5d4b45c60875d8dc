"""An office with a shell: its goals through the real command, each in a process of its own."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandResult
from tests.goals.goal_office import Office
from tests.support import preloaded
from tests.support.postgres_databases import fresh_database


class Shell:
    """`remit` in an office. `office.workspace` stays open beside it, as another process would."""

    def __init__(self, office: Office) -> None:
        self.office = office

    def __call__(self, *arguments: str, stdin: bytes = b"", **environ: str) -> CommandResult:
        done = subprocess.run(
            [preloaded.remit(), *arguments],
            cwd=self.office.root,
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
            env=self.environ(**environ),
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    def environ(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "REMIT_"))}
        return {**kept, **self.office.environ, "COLUMNS": "200", **more}

    def ask(self, *arguments: str, **named: Any) -> CommandResult:
        return self("ask", *arguments, "--json", **named)

    def ask_goal(self, text: str, correlation: str, *arguments: str, user: str = "mia") -> Any:
        """Asked in the tenant acme under an id of one's own: the document."""
        ran = self.ask(text, "--user", user, "--tenant", "acme", "--correlation", correlation, *arguments)
        return json.loads(ran.out)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """On SQLite: where the store makes no difference."""
    office = Office(tmp_path)
    yield Shell(office)
    office.close()


@pytest.fixture
def office_parts() -> dict[str, Any]:
    """What a module's office has instead of the usual catalogue and policies."""
    return {}


@pytest.fixture(params=["sqlite", "postgresql"])
def shell_on_each_store(
    request: pytest.FixtureRequest, tmp_path: Path, office_parts: dict[str, Any]
) -> Iterator[Shell]:
    if request.param == "sqlite":
        office = Office(tmp_path, **office_parts)
        yield Shell(office)
        office.close()
        return
    with fresh_database(request.getfixturevalue("postgres_admin_url")) as url:
        office = Office(tmp_path, url=url, **office_parts)
        yield Shell(office)
        office.close()
