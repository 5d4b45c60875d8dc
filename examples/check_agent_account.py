r"""Checks what the account of an agent can do around Remit. Run it as that account, never as your own.

    sudo -u agent python3 -I /usr/local/lib/remit/check_agent_account.py --workspace /srv/shop \
        --state /home/ada/.local/state/remit --url http://127.0.0.1:7341 --token-file /home/agent/assistant.token

It looks for ways to change the workspace and the state directory, to read the secrets in them, to become another user,
and to approve: over HTTP with the token of the agent and without one, and by the command line. The check changes
nothing: it removes a file that it could create, and it approves a proposal that does not exist.

Keep this file in a folder that only root can write, and run it with `python3 -I`. Otherwise the agent can change the
file, or a module that it imports. The check needs Python's standard library only.

For each way, the check prints one line:

- refused: it tried everything that it knows, and everything was refused.
- POSSIBLE: this account can do it. The paths, commands or requests follow.
- not tried: nothing was possible, but a part could not be tried. The reasons follow.

Exit codes: 1 something was possible; 2 nothing was possible, but a part was not tried; 0 each attempt was refused.
"""

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MOST_FILES = 200_000
MOST_LINKS = 40
SECONDS = 20
MOST_SHOWN = 5
ACCEPTED = 200
NOT_ALLOWED = {401, 403}
TOO_MANY_REQUESTS = 429
COPIES = {"agent_outputs", "agent_logs"}
"""The folders with backups, diffs and logs of Remit. Only the file `.gitignore` in them is not private."""
SECRET_NAMES = {".env", ".git-credentials", ".netrc", ".pgpass", "id_dsa", "id_ecdsa", "id_ed25519", "id_rsa"}
HARMLESS_ENV = {".dist", ".example", ".sample", ".template"}
STATE_FILES = {"approvals.bell", "clock.json", "kernel.pem", "keyring.json", "ledger.sqlite3", "workspace.json"}
STATE_FOLDERS = {"anchors", "audit", "executor", "hosts", "kernel", "keys", "people", "protocol", "snapshots", "work"}
STATE_NAMES = STATE_FILES | STATE_FOLDERS | {"ledger.sqlite3-shm", "ledger.sqlite3-wal"}
SUDO_REFUSES = re.compile(r"may not run|not allowed to run sudo|not in the sudoers|afraid I can't do that")
SUDO_ASKS = re.compile(r"password is required|authentication is required")


class Remark(str):
    """A sentence about an attempt that was refused, for example about what it could not find out."""

    __slots__ = ()


class NotTried(str):
    """The reason why a part was not tried. The other parts of the same attempt go on."""

    __slots__ = ()


class NotTriedError(Exception):
    """The rest of an attempt cannot be made, so its outcome says nothing."""


class Entry(NamedTuple):
    """A file or folder of a tree. If it is a link, `info` is about its target."""

    path: Path
    info: os.stat_result
    is_link: bool


def find_writable(workspace: Path, most: int) -> Iterator[str]:
    """Names what this account can change: a folder above the workspace, a new file, an existing one, or a folder."""
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
    yield from _find_replaceable(workspace)
    for each in _walk(workspace, SECRET_NAMES | COPIES, most):
        if isinstance(each, NotTried):
            yield each
            continue
        if each.is_link:
            yield from _find_replaceable(each.path)
        yield from _find_changes(each)


def find_secrets(workspace: Path, most: int) -> Iterator[str]:
    """Names what this account can read and should not: backups and reports of Remit, and files that look secret.

    A file that all users may read, and its own group may not, was private before its permissions were opened.
    """
    for each in _walk(workspace, SECRET_NAMES | COPIES, most):
        if isinstance(each, NotTried):
            yield each
            continue
        reason = _why_secret(workspace, each)
        if reason and (_owns(each.info) or _can_open(each.path, os.R_OK, os.O_RDONLY)):
            yield f"{each.path}: {reason}"


def _why_secret(workspace: Path, entry: Entry) -> str:
    path, mode = entry.path, entry.info.st_mode
    if not stat.S_ISREG(mode):
        return ""
    names = {path.name, os.path.basename(os.path.realpath(path))}
    if path.name != ".gitignore" and not COPIES.isdisjoint(path.relative_to(workspace).parts):
        return "a report, log or backup of Remit"
    if mode & stat.S_IROTH and not mode & stat.S_IRGRP:
        return "its group may not read it, and all other users may"
    variants = {name for name in names if name.startswith(".env.") and Path(name).suffix not in HARMLESS_ENV}
    if variants or names & SECRET_NAMES:
        return "its name is that of a file with secrets"
    return ""


def find_state(workspace: Path, state: Path, most: int) -> Iterator[str]:
    """Names what this account can read or change of the state directory."""
    yield from _find_replaceable(state)
    try:
        state.stat()
    except PermissionError:
        yield Remark(f"a folder above it is closed, so this account cannot tell whether {state} exists")
        return
    except FileNotFoundError:
        raise NotTriedError(f"there is no state directory {state}; `remit doctor` shows where it is") from None
    if os.access(state, os.R_OK):
        yield f"the list of {state}"
        if not os.listdir(state):
            yield NotTried(f"{state} is empty: it is not the state directory of a workspace")
    for each in _walk(state, STATE_NAMES | {_state_name(workspace)}, most):
        if isinstance(each, NotTried):
            yield each
            continue
        if stat.S_ISREG(each.info.st_mode) and _can_open(each.path, os.R_OK, os.O_RDONLY):
            yield str(each.path)
        if each.is_link:
            yield from _find_replaceable(each.path)
        yield from _find_changes(each)


def _state_name(workspace: Path) -> str:
    """The name that Remit gives to the state directory of this workspace. Each user can compute it."""
    root = Path(os.path.realpath(workspace))
    readable = re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-")[:32] or "root"
    return f"{readable}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"


def _walk(top: Path, known: Iterable[str], most: int) -> Iterator[Entry | NotTried]:
    """Yields the folders and files of a tree, also those that links lead to.

    In a folder that this account may enter and not list, only the `known` names are tried. What they leave out is
    reported as not tried. Links are followed last, so that each entry has its own path if it has one in the tree.
    """
    seen: set[tuple[int, int]] = set()
    folders, links, count = [top], list[Path](), 0
    yield from _look_at(top)
    while folders or links:
        folder = (folders or links).pop()
        info = folder.stat()
        if (info.st_dev, info.st_ino) in seen:
            continue
        seen.add((info.st_dev, info.st_ino))
        try:
            names = os.listdir(folder)
        except PermissionError:
            names = sorted(known) if os.access(folder, os.X_OK) else []
            if names:
                yield NotTried(f"{folder} cannot be listed, but can be entered: its files can be opened by their names")
        count += len(names)
        if count > most:
            yield NotTried(f"{top} has more than {most} files; look at more of them with --most-files NUMBER")
            return
        for name in names:
            for entry in _look_at(folder / name):
                if isinstance(entry, Entry) and stat.S_ISDIR(entry.info.st_mode):
                    (links if entry.is_link else folders).append(entry.path)
                yield entry


def _look_at(path: Path) -> Iterator[Entry | NotTried]:
    """Yields the entry at this path. Yields nothing if there is none, or if this account cannot reach it."""
    try:
        info = path.lstat()
    except (FileNotFoundError, PermissionError):
        return
    except OSError as problem:
        yield NotTried(f"{path}: {problem.strerror}")
        return
    is_link = stat.S_ISLNK(info.st_mode)
    with contextlib.suppress(OSError):
        info = path.stat()
    yield Entry(path, info, is_link)


def _find_changes(entry: Entry) -> Iterator[str]:
    """Says how this account can change a file or folder: it may write it, or it owns it."""
    path, info = entry.path, entry.info
    is_folder = stat.S_ISDIR(info.st_mode)
    name = f"the {'folder' if is_folder else 'file'} {path}"
    if not is_folder and not stat.S_ISREG(info.st_mode):
        return
    if os.access(path, os.W_OK | os.X_OK) if is_folder else _can_open(path, os.W_OK, os.O_WRONLY):
        yield name
    elif _owns(info):
        yield f"{name}: this account owns it, and can change its permissions"


def _find_replaceable(path: Path) -> Iterator[str]:
    """Names the folders above `path` in which this account can put something else in the place of the next one.

    The path is followed step by step, so that the folders with links and the folders that they lead to are included.
    """
    folder, links, parts = Path("/"), 0, list(reversed(path.absolute().parts))
    while parts:
        part = parts.pop()
        if part in {"/", ".."}:
            folder = Path("/") if part == "/" else folder.parent
            continue
        step = folder / part
        try:
            above = folder.stat()
            if _owns(above):
                yield f"{step} can be replaced: this account owns the folder {folder}"
            entry = step.lstat() if os.path.lexists(step) else None
        except OSError:
            return
        is_kept = above.st_mode & stat.S_ISVTX and entry and not _owns(entry)
        if not _owns(above) and not is_kept and os.access(folder, os.W_OK | os.X_OK):
            yield f"{step} can be replaced: this account can write the folder {folder}"
        if entry is None:
            return
        if not stat.S_ISLNK(entry.st_mode):
            folder = step
        elif (links := links + 1) > MOST_LINKS:
            return
        else:
            parts.extend(reversed(Path(os.readlink(step)).parts))


def _owns(info: os.stat_result) -> bool:
    return info.st_uid == os.geteuid()


def _can_open(path: Path, access: int, flags: int) -> bool:
    """Whether this account may open a regular file: by its permissions, or by trying."""
    if os.access(path, access):
        return True
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def find_other_users() -> Iterator[str]:
    """Names the ways in which this account becomes root or another user."""
    if os.geteuid() == 0:
        yield "this account is root"
        return
    for socket in ("/var/run/docker.sock", "/run/podman/podman.sock"):
        if os.access(socket, os.W_OK):
            yield f"the socket {socket}, which starts processes as root"
    sudo = shutil.which("sudo", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/bin:/usr/bin:/bin")))
    if sudo is None:
        return
    if _run([sudo, "-n", "true"])[0] == 0:
        yield "sudo without a password"
    code, *streams = _run([sudo, "-n", "-l"])
    output = "\n".join(streams)
    if "may run the following commands" in output:
        rules = output.partition("may run the following commands")[2].splitlines()[1:]
        yield from (f"a rule of sudo: {rule.strip()}" for rule in rules if rule.strip())
    elif SUDO_ASKS.search(output):
        yield Remark("sudo asks for a password, which this account must not know; root sees its rules: sudo -l -U NAME")
    elif not SUDO_REFUSES.search(output):
        yield NotTried(f"`sudo -n -l` ended with exit code {code}: {output.strip()[:200]}")


def find_approvals(url: str | None, token_file: Path | None) -> Iterator[str]:
    """Names the requests of an approver that the server does not refuse."""
    if url is None:
        raise NotTriedError("give --url and --token-file")
    server = url.rstrip("/")
    decision = {"approved": True, "preview_digest": "sha256:" + "0" * 64}
    yield from _find_approval(server, "no credential", None, decision)
    if token_file is None:
        raise NotTriedError("give --token-file, to try it with the token of the agent")
    token = token_file.read_bytes().strip()
    if not re.fullmatch(rb"[!-~]+", token):
        raise NotTriedError(f"{token_file} does not contain one token in one line")
    yield from _find_approval(server, "the token", token.decode(), decision)
    if _ask(f"{server}/v1/me", token.decode()) != ACCEPTED:
        raise NotTriedError("the server does not accept the token: issue a new one, so that the check means something")


def _find_approval(server: str, credential: str, token: str | None, decision: object) -> Iterator[str]:
    status = _ask(f"{server}/v1/plans/{uuid.uuid4()}/decision", token, decision)
    if 300 <= status < 400 or status >= 500 or status == TOO_MANY_REQUESTS:
        yield NotTried(f"an approval over HTTP with {credential}: status {status}, which is no decision")
    elif status not in NOT_ALLOWED:
        yield f"an approval over HTTP with {credential}: status {status} instead of 401 or 403"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow a redirect, because the token would go to another server."""

    def redirect_request(self, *_: object) -> None:
        """Make no request. The caller gets the status of the redirect."""


def _ask(url: str, token: str | None, body: object = None) -> int:
    """The status of a request, sent to the server itself and never to a proxy: a POST if there is a body."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)  # noqa: S310 - see main
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    try:
        with opener.open(request, timeout=SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return refusal.code
    except (OSError, http.client.HTTPException) as problem:
        reason = f"{type(problem).__name__} {problem}"
        raise NotTriedError(f"the server does not answer as an HTTP server at {url}: {reason}") from problem


def find_commands(workspace: Path, state: Path, remit: str | None) -> Iterator[str]:
    """Names the commands of an approver that this account can run, with the default state directory or with `state`.

    Only an error in the form of Remit is a refusal, because another program, or a broken one, fails as well.
    """
    found = shutil.which(remit or "remit")
    if found is None:
        raise NotTriedError("this account has no program `remit`; name one that it can run: --remit PATH")
    program, reasons = os.path.abspath(found), set()
    for variables in ({}, {"REMIT_STATE": str(state)}, {"REMIT_STATE": str(state.parent)}):
        code, output, _ = _run([program, "approvals", "--json"], workspace, variables)
        try:
            answer = json.loads(output)
            if code == 0 and isinstance(answer, list):
                yield f"`remit approvals` in {workspace}"
                return
            reasons.add(str(answer["error"]["reason"]))
        except (ValueError, LookupError, TypeError):
            raise NotTriedError(f"{program} ended with exit code {code} and without an error of Remit") from None
    if "argument_invalid" in reasons:
        raise NotTriedError(f"{program} does not know the command `approvals --json`, or cannot open {workspace}")
    if reasons == {"state_missing"}:
        raise NotTriedError(f"{program} finds no remit.yaml for {workspace}, or no state directory at {state}")


def _run(command: list[str], folder: Path | None = None, added: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The exit code, output and errors, in English, of a command without input and without the variables of Remit."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("REMIT_")}
    variables |= {"LC_ALL": "C.UTF-8", "LANGUAGE": "C"} | (added or {})
    try:
        done = subprocess.run(  # noqa: S603 - the commands are written above
            command,
            cwd=folder,
            env=variables,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotTriedError(f"{command[0]} did not run: {problem}") from problem
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def main() -> int:
    """Make each attempt, and print its outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspace", type=Path, required=True, help="the repository that the agent works on")
    parser.add_argument("--state", type=Path, required=True, help="the state directory of Remit")
    parser.add_argument("--url", help="the address that `remit serve` printed")
    parser.add_argument("--token-file", type=Path, help="the capability token of the agent")
    parser.add_argument("--remit", help="the program `remit`, if it is not on the PATH of this account")
    parser.add_argument("--most-files", type=int, default=MOST_FILES, help="how many files of a tree it looks at")
    options = parser.parse_args()
    if options.url and not options.url.startswith(("http://", "https://")):
        parser.error("--url begins with http:// or https://")
    workspace, state, most = options.workspace, options.state, options.most_files
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    attempts = {
        "write the workspace": lambda: find_writable(workspace, most),
        "read secrets": lambda: find_secrets(workspace, most),
        "read or write the state directory": lambda: find_state(workspace, state, most),
        "become another user": find_other_users,
        "approve by the command line": lambda: find_commands(workspace, state, options.remit),
        "approve over HTTP": lambda: find_approvals(options.url, options.token_file),
    }
    exit_codes = {_report(name, attempt) for name, attempt in attempts.items()}
    if 1 in exit_codes:
        print("This account can do more than an agent's account should.")
        return 1
    if exit_codes == {0}:
        print("Each attempt was refused.")
        return 0
    print("Nothing was possible, but a part was not tried. The account is not checked until each attempt is refused.")
    return 2


def _report(name: str, attempt: Callable[[], Iterator[str]]) -> int:
    """Make an attempt and print its outcome. A problem keeps what was found before it."""
    outcomes: dict[str, None] = {}
    try:
        for each in attempt():
            outcomes[each] = None
    except (NotTriedError, OSError, ValueError) as problem:
        outcomes[NotTried(problem)] = None
    found = [each for each in outcomes if not isinstance(each, NotTried | Remark)]
    not_tried = [f"not tried: {each}" for each in outcomes if isinstance(each, NotTried)]
    print(f"{'POSSIBLE ' if found else 'not tried' if not_tried else 'refused  '}  {name}")
    for lines in (found, not_tried, [each for each in outcomes if isinstance(each, Remark)]):
        for each in lines[:MOST_SHOWN]:
            print(f"             {_escape(each)}")
        if len(lines) > MOST_SHOWN:
            print(f"             and {len(lines) - MOST_SHOWN} more")
    return 1 if found else 2 if not_tried else 0


def _escape(text: str) -> str:
    """Escape what controls a terminal: an agent chooses the names of its files."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


if __name__ == "__main__":
    sys.exit(main())
