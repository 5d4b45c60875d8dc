"""The check of an agent's account, run as a real second user against a real `remit serve`."""

import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
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


REFUSAL = {"reason": "state_unsafe", "what": "a folder above the state directory belongs to user 0", "where": "/state"}


class Account:
    """A workspace and a state directory of this user, and the files of the agent beside them.

    The real `remit` is in a folder that only root may enter, so `program` answers as it does to another user.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.workspace, self.state = folder, folder / "shop", folder / "state"
        self.home, self.program = folder / "agent", folder / "remit"
        folder.chmod(0o755)
        self.workspace.mkdir(mode=0o755)
        self.home.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(self.home, NOBODY, NOBODY)
        shutil.copy(CHECK, folder / CHECK.name)
        self.write_program(self.program, f"echo '{json.dumps({'error': REFUSAL})}'; exit 2")
        self.asks_the_server: list[str | Path] = []

    def write_program(self, path: Path, lines: str) -> Path:
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
        return path

    def make_state(self) -> None:
        """A state directory with some of its files, as private as Remit makes them."""
        self.state.mkdir(mode=0o700)
        (self.state / "keys").mkdir(mode=0o700)
        for name in ("ledger.sqlite3", "keys/keyring.json"):
            (self.state / name).touch(0o600)

    def check(
        self,
        *added: str | Path,
        user: int | None = NOBODY,
        state: Path | None = None,
        program: str | Path | None = "",
        environment: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """Exit code and output of the check as this user."""
        arguments: list[str | Path] = ["--workspace", self.workspace, "--state", state or self.state]
        arguments += [*self.asks_the_server, *added]
        if program is not None:
            arguments += ["--remit", program or self.program]
        python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
        done = subprocess.run(
            [python, "-I", self.folder / CHECK.name, *arguments],
            user=user,
            group=user,
            extra_groups=None if user is None else (),
            env={"PATH": "/usr/bin:/bin"} | (environment or {}),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


class Served(Account):
    """A real workspace with a server."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environment = {**os.environ, "REMIT_STATE": str(self.state)}
        self.token = self.home / "assistant.token"
        self.run("init")
        self.run("token", "issue", "--sub", "assistant", "--cap", "plan.propose", "-o", str(self.token))
        self.token.chmod(0o644)
        serve = [str(remit()), "serve", "--port", "0", "--json", "--no-link"]
        self.server = subprocess.Popen(
            serve, cwd=self.workspace, env=self.environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.server.stdout
        self.url = json.loads(self.server.stdout.readline())["url"]
        self.asks_the_server = ["--url", self.url, "--token-file", self.token]

    def run(self, *arguments: str) -> None:
        subprocess.run(
            [str(remit()), *arguments], cwd=self.workspace, env=self.environment, check=True, capture_output=True
        )


def outcomes(output: str) -> dict[str, str]:
    """The outcome of each attempt: refused, POSSIBLE or not tried."""
    return {
        name: outcome for outcome, name in re.findall(r"^(refused|POSSIBLE|not tried) +(.+)$", output, re.MULTILINE)
    }


@pytest.fixture
def account() -> Iterator[Account]:
    folder = Path(tempfile.mkdtemp(prefix="remit-account-"))  # another user cannot enter the folders of pytest
    account = Account(folder)
    account.make_state()
    yield account
    shutil.rmtree(folder)


@pytest.fixture
def served() -> Iterator[Served]:
    folder = Path(tempfile.mkdtemp(prefix="remit-account-"))
    served = Served(folder)
    yield served
    os.killpg(served.server.pid, signal.SIGTERM)
    served.server.wait(30)
    assert served.server.stdout
    served.server.stdout.close()
    shutil.rmtree(folder)


@needs_root
def test_an_account_of_its_own_can_do_nothing_around_remit(served: Served) -> None:
    code, output = served.check()
    assert (code, "POSSIBLE" in output, "not tried" in output) == (0, False, False), output
    assert output.count("refused ") >= 6
    assert sorted(path.name for path in served.workspace.iterdir()) == ["remit.yaml"]


@needs_root
def test_each_way_that_is_open_is_named(served: Served) -> None:
    (served.workspace / "settings.json").touch()
    (served.workspace / "settings.json").chmod(0o666)
    served.state.chmod(0o755)
    code, output = served.check()
    assert code == 1
    assert f"the file {served.workspace}/settings.json" in output
    assert f"the list of {served.state}" in output
    served.workspace.chmod(0o777)
    assert f"a new file in {served.workspace}" in served.check()[1]
    assert sorted(path.name for path in served.workspace.iterdir()) == ["remit.yaml", "settings.json"]


@needs_root
def test_a_token_that_the_server_does_not_accept_is_no_proof(served: Served) -> None:
    served.token.write_text("no.such.token")
    code, output = served.check()
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
    (served.folder / "outside").touch(0o640)
    (served.folder / "outside").chmod(0o640)
    (served.workspace / "link").symlink_to(served.folder / "outside")
    (served.workspace / "plan.json").write_text(PLAN)
    served.run("run", "plan.json", "--allow-protected", ".env", "--yes")
    _close_and_open_as_the_page_says(served.workspace)
    code, output = served.check()
    assert (code, "POSSIBLE" in output) == (0, False), output
    modes = {name: (served.workspace / name).stat().st_mode & 0o777 for name in (".env", "mine.txt", "source/a.py")}
    assert modes == {".env": 0o600, "mine.txt": 0o600, "source/a.py": 0o644}
    assert (served.workspace / "source").stat().st_mode & 0o777 == 0o755
    assert (served.folder / "outside").stat().st_mode & 0o777 == 0o640


@needs_root
def test_secrets_that_were_opened_are_named(served: Served) -> None:
    (served.workspace / ".env").write_text("REGION=north\n")
    (served.workspace / ".env").chmod(0o600)
    (served.workspace / "plan.json").write_text(PLAN)
    (served.workspace / "mine.txt").touch(0o600)
    (served.workspace / "mine.txt").chmod(0o604)
    (served.workspace / ".env.example").touch(0o644)
    served.run("run", "plan.json", "--allow-protected", ".env", "--yes")
    code, output = served.check()
    assert (code, f"{served.workspace}/mine.txt" in output) == (1, True), output
    assert "/.env" not in output
    subprocess.run(["chmod", "-R", "o+rX", served.workspace], check=True)
    code, output = served.check()
    assert (code, "POSSIBLE   read secrets" in output) == (1, True), output
    assert f"{served.workspace}/.env:" in output
    assert f"{served.workspace}/.env.example" not in output
    assert f"{served.workspace}/agent_outputs/reports/" in output


@needs_root
def test_an_attempt_that_could_not_be_made_is_not_called_refused(served: Served) -> None:
    code, output = served.check(program=None)
    assert (code, "not tried  approve by the command line" in output) == (2, True), output
    code, output = served.check(program=str(served.home / "no-such-program"))
    assert (code, "not tried  approve by the command line" in output) == (2, True), output
    closed = served.folder / "closed"
    closed.mkdir(mode=0o700)
    code, output = served.check(state=closed / "mistyped")
    assert code == 0, output
    assert f"cannot tell whether {closed}/mistyped exists" in output
    assert "cannot tell" not in served.check()[1]


@needs_root
def test_a_state_directory_that_can_be_entered_is_not_closed(served: Served) -> None:
    for folder in (served.state, *(path for path in served.state.rglob("*") if path.is_dir())):
        folder.chmod(0o711)
    code, output = served.check()
    assert (code, outcomes(output)["read or write the state directory"]) == (2, "not tried"), output
    assert f"{served.state} cannot be listed, but can be entered" in output
    (state,) = served.state.iterdir()
    for name in ("ledger.sqlite3", "workspace.json", "keys/keyring.json"):
        (state / name).chmod(0o644)
    for given in (served.state, state):
        code, output = served.check(state=given)
        assert (code, outcomes(output)["read or write the state directory"]) == (1, "POSSIBLE"), output
        assert {f"{state}/{name}" in output for name in ("ledger.sqlite3", "keys/keyring.json")} == {True}, output
        assert f"not tried: {state}/keys cannot be listed" in output


@needs_root
def test_a_state_directory_that_can_be_written_is_named(account: Account) -> None:
    account.state.chmod(0o733)
    code, output = account.check()
    assert (code, outcomes(output)["read or write the state directory"]) == (1, "POSSIBLE"), output
    assert f"the folder {account.state}\n" in output
    account.state.chmod(0o711)
    (account.state / "ledger.sqlite3").chmod(0o622)
    code, output = account.check()
    assert (code, f"the file {account.state}/ledger.sqlite3\n" in output) == (1, True), output


@needs_root
def test_an_owner_can_open_a_file_or_folder_again(account: Account) -> None:
    for name, make in (("file", Path.touch), ("folder", Path.mkdir)):
        path = account.workspace / f"owned-{name}"
        make(path)
        path.chmod(0o444)
        os.chown(path, NOBODY, NOBODY)
    (account.workspace / ".env").touch()
    (account.workspace / ".env").chmod(0)
    os.chown(account.workspace / ".env", NOBODY, NOBODY)
    os.chown(account.state, NOBODY, NOBODY)
    account.state.chmod(0)
    code, output = account.check()
    assert code == 1
    for name in (f"file {account.workspace}/owned-file", f"folder {account.workspace}/owned-folder"):
        assert f"the {name}: this account owns it" in output
    assert f"{account.workspace}/.env: its name is that of a file with secrets" in output
    assert f"the folder {account.state}: this account owns it" in output


@needs_root
def test_a_folder_above_in_which_the_workspace_can_be_replaced_is_named(account: Account) -> None:
    account.folder.chmod(0o1777)
    assert outcomes(account.check()[1])["write the workspace"] == "refused"
    account.folder.chmod(0o777)
    code, output = account.check()
    assert (code, outcomes(output)["write the workspace"]) == (1, "POSSIBLE"), output
    assert f"{account.workspace} can be replaced: this account can write the folder {account.folder}" in output
    assert f"{account.state} can be replaced" in output
    account.folder.chmod(0o555)
    os.chown(account.folder, NOBODY, NOBODY)
    assert f"{account.workspace} can be replaced: this account owns the folder" in account.check()[1]


@needs_root
def test_a_link_on_the_way_to_the_workspace_is_followed(account: Account) -> None:
    shared = account.folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "current").symlink_to(account.workspace)
    (account.folder / "link").symlink_to("shared/current")
    real, account.workspace = account.workspace, account.folder / "link"
    code, output = account.check()
    assert (code, f"{shared}/current can be replaced" in output) == (1, True), output
    assert f"{real} can be replaced" not in output


@needs_root
def test_a_subfolder_that_can_be_entered_is_not_closed(account: Account) -> None:
    hidden = account.workspace / "hidden"
    hidden.mkdir()
    (hidden / "open").mkdir()
    (hidden / "open").chmod(0o777)
    hidden.chmod(0o700)
    code, output = account.check()
    assert {outcomes(output)[name] for name in ("write the workspace", "read secrets")} == {"refused"}, output
    hidden.chmod(0o711)
    code, output = account.check()
    assert code == 2
    assert {outcomes(output)[name] for name in ("write the workspace", "read secrets")} == {"not tried"}, output
    (hidden / ".env").touch(0o644)
    code, output = account.check()
    assert (code, outcomes(output)["read secrets"]) == (1, "POSSIBLE"), output
    assert f"{hidden}/.env: its name is that" in output


@needs_root
def test_links_to_secrets_and_to_folders_are_followed(account: Account) -> None:
    shared = account.folder / "shared"
    (shared / "more").mkdir(parents=True)
    (shared / ".env").touch(0o644)
    (shared / "more/.netrc").touch(0o644)
    (account.workspace / ".env").symlink_to("../shared/.env")
    (account.workspace / "settings").symlink_to("../shared/.env")
    (account.workspace / "more").symlink_to("../shared/more")
    (account.workspace / "again").symlink_to(".")
    code, output = account.check()
    assert (code, outcomes(output)["write the workspace"]) == (1, "refused"), output
    for name in (".env", "settings", "more/.netrc"):
        assert f"{account.workspace}/{name}: its name is that" in output
    shared.chmod(0o777)
    code, output = account.check()
    assert f"{shared}/.env can be replaced" in output
    for mode in (0o644, 0o600):
        (shared / ".env").chmod(mode)
        shared.chmod(0o700)
        assert outcomes(account.check()[1])["read secrets"] == "refused"


@needs_root
def test_each_rule_of_sudo_is_named(account: Account) -> None:
    programs = account.folder / "programs"
    programs.mkdir()
    header = "Matching Defaults entries for agent on shop:\n    env_reset\n\n"
    rules = "User agent may run the following commands on shop:\n    (ada) NOPASSWD: ALL\n"
    for answer, code, outcome, line in (
        (header + rules, 0, "POSSIBLE", "a rule of sudo: (ada) NOPASSWD: ALL"),
        ("Sorry, user agent may not run sudo on shop.", 1, "refused", ""),
        ("sudo: a password is required", 1, "refused", "sudo asks for a password"),
        ("sudo: interactive authentication is required", 1, "refused", "sudo asks for a password"),
        ("sudo: you must have a tty to run sudo", 1, "not tried", "you must have a tty"),
        ("", 0, "not tried", "`sudo -n -l` ended with exit code 0"),
    ):
        lines = f"test \"$*\" = '-n -l' || exit 1\ncat <<'END'\n{answer}\nEND\nexit {code}"
        account.write_program(programs / "sudo", lines)
        output = account.check(environment={"PATH": f"{programs}:/usr/bin:/bin"})[1]
        assert (outcomes(output)["become another user"], line in output) == (outcome, True), output
        assert "env_reset" not in output


@needs_root
def test_only_a_refusal_of_remit_is_a_refusal(account: Account) -> None:
    def refuse(reason: str) -> str:
        return f"echo '{json.dumps({'error': REFUSAL | {'reason': reason}})}'; exit 1"

    attempt = "approve by the command line"
    for program in ("/bin/false", "/bin/true", "/bin/ls"):
        assert outcomes(account.check(program=program)[1])[attempt] == "not tried"
    other = account.folder / "other"
    for lines, outcome in (
        (refuse("state_unsafe"), "refused"),
        (refuse("state_missing"), "not tried"),
        (refuse("argument_invalid"), "not tried"),
        ("echo Traceback >&2; exit 1", "not tried"),
        ("echo '{}'; exit 1", "not tried"),
        ("echo a goal waits >&2; echo '[]'", "POSSIBLE"),
        (f'if [ "$REMIT_STATE" ]; then {refuse("state_unsafe")}; else {refuse("state_missing")}; fi', "refused"),
    ):
        output = account.check(program=account.write_program(other, lines))[1]
        assert outcomes(output)[attempt] == outcome, (lines, output)


@needs_root
def test_the_real_program_refuses_another_user(served: Served) -> None:
    libraries = os.pathsep.join([str(ROOT / "src"), *(path for path in sys.path if path.endswith("site-packages"))])
    start = f"exec env PYTHONPATH={libraries} PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3"
    program = served.write_program(served.folder / "real", f"{start} -c 'from remit.cli import main; main()' \"$@\"")
    if subprocess.run([program, "--version"], user=NOBODY, capture_output=True, check=False).returncode:
        pytest.skip("the Python of the system cannot import the libraries of this one")
    (state,) = served.state.iterdir()
    code, output = served.check(state=state, program=program)
    assert (code, outcomes(output)["approve by the command line"]) == (0, "refused"), output
    output = served.check(user=None, program=program)[1]
    assert outcomes(output)["approve by the command line"] == "POSSIBLE", output


@needs_root
def test_a_missing_address_or_token_is_not_tried(served: Served) -> None:
    served.asks_the_server = []
    for added, missing in (
        ((), "give --url and --token-file"),
        (("--url", served.url), "give --token-file"),
        (("--token-file", served.token), "give --url"),
    ):
        code, output = served.check(*added)
        assert (code, outcomes(output)["approve over HTTP"], missing in output) == (2, "not tried", True), output


class _Recorder(http.server.BaseHTTPRequestHandler):
    """Records each request, and redirects it to `target` if the server has one."""

    def do_POST(self) -> None:
        self.server.seen.append((self.path, self.headers["Authorization"]))  # type: ignore[attr-defined]
        target = self.server.target  # type: ignore[attr-defined]
        self.send_response(302 if target else 200)
        if target:
            self.send_header("Location", target)
        self.end_headers()

    do_GET = do_POST  # noqa: N815 - the name that the base class looks for

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def recorder(target: str = "") -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """The address of a server, and what it received."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Recorder) as server:
        server.seen, server.target = [], target  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", server.seen  # type: ignore[attr-defined]
        finally:
            server.shutdown()


@needs_root
def test_the_token_goes_to_the_server_only(served: Served) -> None:
    with recorder() as (other, seen):
        proxies = {"http_proxy": other, "HTTP_PROXY": other, "ALL_PROXY": other}
        code, output = served.check(environment=proxies)
        assert (code, seen) == (0, []), output
        with recorder(f"{other}/there") as (redirecting, asked):
            code, output = served.check("--url", redirecting)
            assert (code, outcomes(output)["approve over HTTP"], seen) == (2, "not tried", []), output
            assert (len(asked), "status 302" in output) == (3, True)


@needs_root
def test_what_was_found_is_kept_if_a_later_part_cannot_be_tried(served: Served) -> None:
    (served.workspace / "a.txt").touch()
    served.workspace.chmod(0o777)
    code, output = served.check("--most-files", "1")
    assert (code, outcomes(output)["write the workspace"]) == (1, "POSSIBLE"), output
    assert f"not tried: {served.workspace} has more than 1 files" in output
    served.workspace.chmod(0o755)
    code, output = served.check("--most-files", "1")
    assert (code, outcomes(output)["write the workspace"]) == (2, "not tried"), output
    served.token.write_text("no.such.token")
    with recorder() as (accepting, seen):
        code, output = served.check("--url", accepting, "--token-file", served.home / "none")
    assert (code, outcomes(output)["approve over HTTP"], len(seen)) == (1, "POSSIBLE", 1), output
    assert "status 200 instead of 401 or 403" in output


@needs_root
def test_names_are_escaped(account: Account) -> None:
    (account.workspace / "a\x1b]0;owned\x07\u202eb\né").touch()
    (account.workspace / "a\x1b]0;owned\x07\u202eb\né").chmod(0o666)
    code, output = account.check(environment={"LC_ALL": "C.UTF-8"})
    assert (code, rf"the file {account.workspace}/a\x1b]0;owned\x07\u202eb\né" in output) == (1, True), output
    assert all(each == "\n" or each.isprintable() for each in output)


@needs_root
def test_a_strange_server_or_token_is_not_tried(account: Account) -> None:
    token = account.home / "assistant.token"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-\x1b[31mOpenSSH\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        code, output = account.check("--url", f"http://127.0.0.1:{server.getsockname()[1]}", "--token-file", token)
        thread.join(30)
    assert (code, outcomes(output)["approve over HTTP"]) == (2, "not tried"), output
    assert "\x1b" not in output
    with recorder() as (url, _):
        for content in (b"first.secret\nsecond.secret", b"", b"\xff.secret", b"a secret"):
            token.write_bytes(content)
            token.chmod(0o644)
            output = account.check("--url", url, "--token-file", token)[1]
            assert f"not tried: {token} does not contain one token in one line" in output
            assert ("Traceback" in output, "secret" in output) == (False, "secrets\n" in output), output


def test_the_page_runs_a_script_that_only_root_can_change() -> None:
    page = PAGE.read_text()
    assert re.search(r"^\$ sudo install .*-o root .*check_agent_account\.py", page, re.MULTILINE)
    runs = re.findall(r"^\$ (sudo -u agent .*check_agent_account\.py)", page, re.MULTILINE)
    assert runs
    assert all(run.startswith("sudo -u agent python3 -I /usr/local/") for run in runs), runs
