"""The check of an agent's account, run as a real second user against a real `remit serve`."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docs_examples import ROOT
from tests.support.preloaded import remit

CHECK = ROOT / "examples/check_agent_account.py"
PAGE = ROOT / "docs/how-to/let-a-coding-agent-change-a-repository.md"
NOBODY = 65_534
PLAN = """{"plan_id": "plan-1", "action_plan": [{"action_id": "a1", "action_type": "FILE_MODIFY", "target": ".env",
  "operation": {"type": "text_replace", "pattern": "north", "replacement": "south"}}]}"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")


class Served:
    """A workspace of this user with a server, and the files of the agent beside it."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.state, self.home = folder / "shop", folder / "state", folder / "agent"
        folder.chmod(0o755)
        self.workspace.mkdir(mode=0o755)
        self.home.mkdir(mode=0o777)
        self.environment = {**os.environ, "REMIT_STATE": str(self.state)}
        self.token = self.home / "assistant.token"
        self.run("init")
        self.run("token", "issue", "--sub", "assistant", "--cap", "plan.propose", "-o", str(self.token))
        self.token.chmod(0o644)
        shutil.copy(CHECK, self.home / CHECK.name)
        serve = [str(remit()), "serve", "--port", "0", "--json", "--no-link"]
        self.server = subprocess.Popen(
            serve, cwd=self.workspace, env=self.environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.server.stdout
        self.url = json.loads(self.server.stdout.readline())["url"]

    def run(self, *arguments: str) -> None:
        subprocess.run(
            [str(remit()), *arguments], cwd=self.workspace, env=self.environment, check=True, capture_output=True
        )

    def check(
        self, *, user: int | None, state: Path | None = None, program: str | None = "/bin/false"
    ) -> tuple[int, str]:
        """Exit code and output of the check as this user. The real `remit` is in a folder that only root may enter."""
        arguments: list[str | Path] = ["--workspace", self.workspace, "--state", state or self.state]
        arguments += ["--url", self.url, "--token-file", self.token]
        if program is not None:
            arguments += ["--remit", program]
        python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
        done = subprocess.run(
            [python, self.home / CHECK.name, *arguments],
            user=user,
            group=user,
            extra_groups=None if user is None else (),
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def served() -> Iterator[Served]:
    folder = Path(tempfile.mkdtemp(prefix="remit-account-"))  # another user cannot enter the folders of pytest
    served = Served(folder)
    yield served
    os.killpg(served.server.pid, signal.SIGTERM)
    served.server.wait(30)
    assert served.server.stdout
    served.server.stdout.close()
    shutil.rmtree(folder)


@needs_root
def test_an_account_of_its_own_can_do_nothing_around_remit(served: Served) -> None:
    code, output = served.check(user=NOBODY)
    assert (code, "POSSIBLE" in output, "not tried" in output) == (0, False, False), output
    assert output.count("refused ") >= 6
    assert sorted(path.name for path in served.workspace.iterdir()) == ["remit.yaml"]


@needs_root
def test_each_way_that_is_open_is_named(served: Served) -> None:
    (served.workspace / "settings.json").touch()
    (served.workspace / "settings.json").chmod(0o666)
    served.state.chmod(0o755)
    code, output = served.check(user=NOBODY)
    assert code == 1
    assert f"the file {served.workspace}/settings.json" in output
    assert f"the list of {served.state}" in output
    served.workspace.chmod(0o777)
    assert f"a new file in {served.workspace}" in served.check(user=NOBODY)[1]
    assert sorted(path.name for path in served.workspace.iterdir()) == ["remit.yaml", "settings.json"]


@needs_root
def test_a_token_that_the_server_does_not_accept_is_no_proof(served: Served) -> None:
    served.token.write_text("no.such.token")
    code, output = served.check(user=NOBODY)
    assert (code, "the server does not accept the token" in output) == (2, True), output


def test_the_account_of_the_owner_fails_the_check(served: Served) -> None:
    code, output = served.check(user=None)
    assert code == 1
    assert f"a new file in {served.workspace}" in output
    assert f"the list of {served.state}" in output


def _close_and_open_as_the_page_says(repository: Path) -> None:
    """Run the commands of the page that set the permissions of the repository."""
    commands = re.findall(r"^\$ ((?:chmod|find) .*/srv/shop.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) >= 3, commands
    for command in commands:
        subprocess.run(["sh", "-ec", command.replace("/srv/shop", str(repository))], check=True)


@needs_root
def test_the_permissions_of_the_page_open_no_secret_and_no_backup(served: Served) -> None:
    (served.workspace / ".env").write_text("REGION=north\n")
    (served.workspace / ".env").chmod(0o644)
    (served.workspace / "mine.txt").touch(0o600)
    (served.workspace / "source").mkdir(0o750)
    (served.workspace / "source/a.py").touch(0o640)
    (served.home / "outside").touch(0o640)
    (served.home / "outside").chmod(0o640)
    (served.workspace / "link").symlink_to(served.home / "outside")
    (served.workspace / "plan.json").write_text(PLAN)
    served.run("run", "plan.json", "--allow-protected", ".env", "--yes")
    _close_and_open_as_the_page_says(served.workspace)
    code, output = served.check(user=NOBODY)
    assert (code, "POSSIBLE" in output) == (0, False), output
    modes = {name: (served.workspace / name).stat().st_mode & 0o777 for name in (".env", "mine.txt", "source/a.py")}
    assert modes == {".env": 0o600, "mine.txt": 0o600, "source/a.py": 0o644}
    assert (served.workspace / "source").stat().st_mode & 0o777 == 0o755
    assert (served.home / "outside").stat().st_mode & 0o777 == 0o640


@needs_root
def test_secrets_that_were_opened_are_named(served: Served) -> None:
    (served.workspace / ".env").write_text("REGION=north\n")
    (served.workspace / ".env").chmod(0o600)
    (served.workspace / "plan.json").write_text(PLAN)
    (served.workspace / "mine.txt").touch(0o600)
    (served.workspace / "mine.txt").chmod(0o604)
    (served.workspace / ".env.example").touch(0o644)
    served.run("run", "plan.json", "--allow-protected", ".env", "--yes")
    code, output = served.check(user=NOBODY)
    assert (code, f"{served.workspace}/mine.txt" in output) == (1, True), output
    assert "/.env" not in output
    subprocess.run(["chmod", "-R", "o+rX", served.workspace], check=True)
    code, output = served.check(user=NOBODY)
    assert (code, "POSSIBLE   read secrets" in output) == (1, True), output
    assert f"{served.workspace}/.env:" in output
    assert f"{served.workspace}/.env.example" not in output
    assert f"{served.workspace}/agent_outputs/reports/" in output


@needs_root
def test_an_attempt_that_could_not_be_made_is_not_called_refused(served: Served) -> None:
    code, output = served.check(user=NOBODY, program=None)
    assert (code, "not tried  approve by the command line" in output) == (2, True), output
    code, output = served.check(user=NOBODY, program=str(served.home / "no-such-program"))
    assert (code, "not tried  approve by the command line" in output) == (2, True), output
    closed = served.home / "closed"
    closed.mkdir(mode=0o700)
    code, output = served.check(user=NOBODY, state=closed / "mistyped")
    assert code == 0, output
    assert f"cannot tell whether {closed}/mistyped exists" in output
    assert "cannot tell" not in served.check(user=NOBODY)[1]
