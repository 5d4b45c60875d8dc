r"""Checks what the account of an agent can do around Remit. Run it as that account, never as your own.

    sudo -u agent python3 check_agent_account.py --workspace /srv/shop --state /home/ada/.local/state/remit \
        --url http://127.0.0.1:7341 --token-file /home/agent/assistant.token

It tries to write the workspace, to read its secrets and the state directory, to become another user, and to approve:
over HTTP with the token of the agent and without one, and by the command line. Each attempt must be refused. The check
changes nothing: it removes a file that it could create, and it approves a proposal that does not exist. It needs
Python's standard library only. Exit codes: 0 each attempt was refused; 1 an attempt succeeded; 2 an attempt could not
be made.
"""

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

MOST_FILES = 20_000
SECONDS = 20
MOST_SHOWN = 5
ACCEPTED = 200
NOT_ALLOWED = {401, 403}
COPIES = {"agent_outputs", "agent_logs"}
"""The folders with backups, diffs and logs of Remit. Only the file `.gitignore` in them is not private."""
SECRET_NAMES = {".env", ".git-credentials", ".netrc", ".pgpass", "id_dsa", "id_ecdsa", "id_ed25519", "id_rsa"}
HARMLESS_ENV = {".dist", ".example", ".sample", ".template"}


class NotTriedError(Exception):
    """An attempt could not be made, so its outcome says nothing."""


class Remark(str):
    """A sentence about an attempt that was refused, for example about what it could not find out."""

    __slots__ = ()


def find_writable(workspace: Path) -> Iterator[str]:
    """Names what this account can write: a new file, an existing one, or a folder."""
    probe = workspace / f".account-check-{uuid.uuid4().hex}"
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileNotFoundError:
        raise NotTriedError(f"there is no folder {workspace}") from None
    except OSError:
        pass
    else:
        probe.unlink()
        yield f"a new file in {workspace}"
    for folder, folders, files in _walk(workspace):
        for name in folders:
            if os.access(folder / name, os.W_OK):
                yield f"the folder {folder / name}"
        for name in files:
            if _can_open(folder / name, os.O_WRONLY):
                yield f"the file {folder / name}"


def find_secrets(workspace: Path) -> Iterator[str]:
    """Names what this account can read and should not: backups and reports of Remit, and files that look secret.

    A file that all users may read, and its own group may not, was private before its permissions were opened.
    """
    for folder, _, files in _walk(workspace):
        is_copy = not COPIES.isdisjoint(folder.relative_to(workspace).parts)
        for name in files:
            path = folder / name
            if not _can_open(path, os.O_RDONLY):
                continue
            mode = path.lstat().st_mode
            if is_copy and name != ".gitignore":
                yield f"{path}: a report, log or backup of Remit"
            elif mode & stat.S_IROTH and not mode & stat.S_IRGRP:
                yield f"{path}: its group may not read it, and all other users may"
            elif name in SECRET_NAMES or (name.startswith(".env.") and path.suffix not in HARMLESS_ENV):
                yield f"{path}: its name is that of a file with secrets"


def _walk(workspace: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    seen = 0
    for folder, folders, files in os.walk(workspace):
        seen += len(files)
        if seen > MOST_FILES:
            raise NotTriedError(f"{workspace} has more than {MOST_FILES} files: name a part of it")
        yield Path(folder), folders, files


def find_readable(state: Path) -> Iterator[str]:
    """Names what this account can read of the state directory."""
    try:
        names = os.listdir(state)
    except PermissionError:
        if not _can_see(state):
            yield Remark(f"a folder above it is closed, so this account cannot tell whether {state} exists")
        return
    except FileNotFoundError:
        raise NotTriedError(f"there is no state directory {state}; `remit doctor` shows where it is") from None
    yield f"the list of {state}"
    for folder, _, files in os.walk(state):
        yield from (str(Path(folder) / name) for name in files if _can_open(Path(folder) / name, os.O_RDONLY))
    if not names:
        raise NotTriedError(f"{state} is empty: it is not the state directory of a workspace")


def _can_see(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _can_open(path: Path, flags: int) -> bool:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        os.close(os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def find_other_users() -> Iterator[str]:
    """Names the ways in which this account becomes root."""
    if os.geteuid() == 0:
        yield "this account is root"
        return
    if (sudo := shutil.which("sudo")) and _exit_code([sudo, "-n", "true"]) == 0:
        yield "sudo without a password"
    for socket in ("/var/run/docker.sock", "/run/podman/podman.sock"):
        if os.access(socket, os.W_OK):
            yield f"the socket {socket}, which starts processes as root"


def find_approvals(url: str, token: str) -> Iterator[str]:
    """Names the requests of an approver that the server does not refuse."""
    server = url.rstrip("/")
    decision = {"approved": True, "preview_digest": "sha256:" + "0" * 64}
    for credential, sent in (("the token", token), ("no credential", None)):
        status = _ask(f"{server}/v1/plans/{uuid.uuid4()}/decision", sent, decision)
        if status not in NOT_ALLOWED:
            yield f"an approval over HTTP with {credential}: status {status} instead of 401 or 403"
    if _ask(f"{server}/v1/me", token) != ACCEPTED:
        raise NotTriedError("the server does not accept the token: issue a new one, so that the check means something")


def find_commands(workspace: Path, state: Path, remit: str | None) -> Iterator[str]:
    """Names the commands of an approver that this account can run, with the default state directory or with `state`."""
    program = remit or shutil.which("remit")
    if program is None:
        raise NotTriedError("this account has no program `remit`; name one that it can run: --remit PATH")
    for variables in ({}, {"REMIT_STATE": str(state)}, {"REMIT_STATE": str(state.parent)}):
        if _exit_code([program, "approvals", "--json"], workspace, variables) == 0:
            yield f"`remit approvals` in {workspace}"
            return


def _exit_code(command: list[str], folder: Path | None = None, added: dict[str, str] | None = None) -> int:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("REMIT_")} | (added or {})
    try:
        done = subprocess.run(command, cwd=folder, env=variables, timeout=SECONDS, check=False, capture_output=True)  # noqa: S603 - the commands are written above
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotTriedError(f"{command[0]} did not run: {problem}") from problem
    return done.returncode


def _ask(url: str, token: str | None, body: object = None) -> int:
    """The status of a request: a POST if there is a body."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)  # noqa: S310 - see main
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - see main
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code
    except OSError as problem:
        raise NotTriedError(f"the server does not answer at {url}: {problem}") from problem


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspace", type=Path, required=True, help="the repository that the agent works on")
    parser.add_argument("--state", type=Path, required=True, help="the state directory of Remit")
    parser.add_argument("--url", help="the address that `remit serve` printed")
    parser.add_argument("--token-file", type=Path, help="the capability token of the agent")
    parser.add_argument("--remit", help="the program `remit`, if it is not on the PATH of this account")
    options = parser.parse_args()
    attempts = {
        "write the workspace": lambda: find_writable(options.workspace),
        "read secrets": lambda: find_secrets(options.workspace),
        "read the state directory": lambda: find_readable(options.state),
        "become another user": find_other_users,
        "approve by the command line": lambda: find_commands(options.workspace, options.state, options.remit),
    }
    if options.url and options.token_file:
        if not options.url.startswith(("http://", "https://")):
            parser.error("--url begins with http:// or https://")
        attempts["approve over HTTP"] = lambda: find_approvals(options.url, options.token_file.read_text().strip())
    exit_codes = [_report(name, attempt) for name, attempt in attempts.items()]
    worst = 1 if 1 in exit_codes else max(exit_codes)
    print(
        "Each attempt was refused."
        if worst == 0
        else "This account can do more than an agent's should, or a check is missing."
    )
    return worst


def _report(name: str, attempt: Callable[[], Iterator[str]]) -> int:
    try:
        found = list(attempt())
    except (NotTriedError, OSError) as problem:
        print(f"not tried  {name}: {problem}")
        return 2
    remarks = [each for each in found if isinstance(each, Remark)]
    found = [each for each in found if not isinstance(each, Remark)]
    print(f"{'POSSIBLE' if found else 'refused '}   {name}")
    for each in (*found[:MOST_SHOWN], *remarks):
        print(f"             {each}")
    if len(found) > MOST_SHOWN:
        print(f"             and {len(found) - MOST_SHOWN} more")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
