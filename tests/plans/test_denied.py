"""Permission denied, to a real ordinary user without any capability: code 3001, nothing touched, and words that help.

Each case is looked at, approved and applied by processes of that user. Root, who owns the machine, closes something
before that, or between the approval and the run. What is closed is found before anything is done wherever it can be.
"""

import compileall
import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from remit.core.errors import Reason
from tests.plans.project import Project, create, delete, plan_of, rename, replace
from tests.support.sampling import some

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
    pytest.mark.req("PX-22", "PX-35"),
]
ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
DENIED = 3001
TEXT = "one\ntwo\nthree\n"
HELP = "Check who owns"
DRIVER = """
import json, os, sys
from remit.contracts.plans.outcome import PlanOutcome
from remit.core.errors import RemitError
from remit.workspace.workspace import Workspace
what, root, plan, kept, close = sys.argv[1:]
closing = [close] if close else []
def listen(update):
    if update.phase == "RUNNING" and closing:
        os.chmod(os.path.join(root, closing.pop()), 0o555)
def told(errors):
    return [[error.error_code, error.message, error.recovery_action] for error in errors]
answer = {"errors": []}
try:
    with Workspace.open(root) as workspace:
        if what == "look":
            seen = workspace.preview(open(plan, "rb").read()).document
            answer = {"status": seen.status, "errors": told(seen.problems)}
            open(kept, "wb").write(workspace.approve(open(plan, "rb").read()).canonical())
            answer["status"] = "APPROVED"
        else:
            outcome = workspace.apply(open(kept, "rb").read(), on_status=listen)
            status = outcome.status.status if isinstance(outcome, PlanOutcome) else "REFUSED"
            answer = {"status": status, "errors": told(outcome.errors), "unsettled": len(workspace.recover())}
except RemitError as problem:
    answer["raised"] = [problem.reason, problem.what, problem.next_step]
print(json.dumps(answer))
"""
# Loading Remit is most of what he would do: it is done once, and each order is for a process that was forked from it.
SERVING = """
import importlib, json, os, pkgutil, sys, traceback
import remit
for module in pkgutil.walk_packages(remit.__path__, "remit."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for line in sys.stdin:
    asked = json.loads(line)
    there, here = os.pipe()
    if not (pid := os.fork()):
        os.dup2(here, 1)
        os.environ.update(asked["environ"])
        sys.argv[1:] = asked["arguments"]
        try:
            exec(asked["program"], {"__name__": "__main__"})
        except BaseException:
            print(traceback.format_exc())
            sys.stdout.flush()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    os.close(here)
    with open(there) as told:
        said = told.read()
    print(json.dumps([os.waitpid(pid, 0)[1], said]), flush=True)
"""


@functools.cache
def python_of_nobody(code: Path) -> str:
    """This interpreter, if others may run it; else the system's, if it is of the same version."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        program = "import sys, pydantic_core, remit.workspace.workspace; print(sys.version_info[:2])"
        done = subprocess.run(_as_nobody(code, candidate, program), capture_output=True, text=True, check=False)
        if done.stdout.strip() == str(sys.version_info[:2]):
            return candidate
    pytest.fail("an ordinary user can run no Python of this version here: install one that everybody may read")


def _as_nobody(code: Path, python: str, program: str, **environ: str) -> list[str]:
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    path = f"{code}{os.pathsep}{sysconfig.get_paths()['purelib']}"
    settings = [f"{name}={value}" for name, value in {"PYTHONPATH": path, **environ}.items()]
    return [*drop, "env", "-i", *settings, "PYTHONDONTWRITEBYTECODE=1", python, "-c", program]


@pytest.fixture(scope="module")
def code() -> Iterator[Path]:
    """A copy of what is run: the checkout may be closed to others."""
    with tempfile.TemporaryDirectory(prefix="remit-denied-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(folder, quiet=2)  # once, and not in each of his processes
        yield Path(folder) / "src"


@pytest.fixture(scope="module")
def him(code: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of his, that does what it is told in others."""
    command = _as_nobody(code, python_of_nobody(code), SERVING, PATH=os.environ["PATH"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        yield process


class Answer(NamedTuple):
    """What he was told."""

    status: str = ""
    errors: list[tuple[int, str, str]] = []  # noqa: RUF012 - never changed
    """Code, message and recovery of each."""
    raised: tuple[str, str, str] | None = None
    """Reason, words and next step of what could not even be a refusal."""
    unsettled: int = 0


class UnprivilegedProject:
    """A project of nobody's, and what is needed to act in it as him."""

    def __init__(self, folder: Path, him: subprocess.Popen[str]) -> None:
        folder.chmod(0o755)
        self._folder, self._him = folder, him
        self.project = Project(folder)
        self.project.close()
        self.root = self.project.root
        for name in ("open/a.txt", "closed/b.txt"):
            self.project.write(name, TEXT)
        (self.state,) = (folder / "state").iterdir()
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(folder)], check=True)

    def run(self, what: str, close: str = "") -> Answer:
        """`close`: the folder that he makes read-only himself, when the backups are made and the run begins."""
        places = (self.root, self._folder / "plan.json", self._folder / "envelope.json")
        arguments = [what, *map(str, places), close]
        order = {"program": DRIVER, "arguments": arguments, "environ": self.project.environ}
        assert self._him.stdin is not None
        assert self._him.stdout is not None
        self._him.stdin.write(json.dumps(order) + "\n")
        self._him.stdin.flush()
        status, said = json.loads(self._him.stdout.readline())
        assert status == 0, said
        return Answer(**json.loads(said))

    def look(self, plan: bytes) -> Answer:
        """Preview and approve."""
        (self._folder / "plan.json").write_bytes(plan)
        return self.run("look")

    def approve(self, plan: bytes) -> None:
        answer = self.look(plan)
        assert answer.status == "APPROVED", answer


@pytest.fixture
def unprivileged(him: subprocess.Popen[str]) -> Iterator[UnprivilegedProject]:
    with tempfile.TemporaryDirectory(prefix="remit-denied-", dir="/tmp") as folder:
        yield UnprivilegedProject(Path(folder), him)


def to_root(path: Path, mode: int) -> None:
    os.chown(path, 0, 0)
    path.chmod(mode)


def output_of_root(unprivileged: UnprivilegedProject, name: str, mode: int) -> None:
    (unprivileged.root / name).mkdir(exist_ok=True)
    to_root(unprivileged.root / name, mode)


def assert_denied(answer: Answer, status: str) -> None:
    """One error, of the file that is closed, with the one next step there is; and nothing for `recover` to do."""
    assert answer.status == status, answer
    ((code, message, recovery),) = answer.errors
    assert code == DENIED
    assert HELP in message
    assert recovery == ("ROLLED_BACK" if status == "ROLLED_BACK" else "SKIPPED")
    assert answer.unsettled == 0


Act = Callable[[UnprivilegedProject], object]
A = replace("a", "open/a.txt")
B = replace("b", "closed/b.txt")
FOLDER_READ_ONLY: Act = lambda on: (on.root / "closed").chmod(0o555)  # noqa: E731 - a table of them follows
FILE_SHUT: Act = lambda on: to_root(on.root / "closed/b.txt", 0o600)  # noqa: E731

# What is closed, and the action that needs it.
SEEN_BEFORE: dict[str, tuple[Act, dict[str, Any]]] = {
    "edit in a folder that is read-only": (FOLDER_READ_ONLY, B),
    "delete in a folder that is read-only": (FOLDER_READ_ONLY, delete("b", "closed/b.txt")),
    "new file in a folder that is read-only": (FOLDER_READ_ONLY, create("b", "closed/new.txt")),
    "new folder in a folder that is read-only": (FOLDER_READ_ONLY, create("b", "closed/deep/down/new.txt")),
    "rename out of a folder that is read-only": (FOLDER_READ_ONLY, rename("b", "closed/b.txt", "open/b.txt")),
    "rename into a folder of somebody else": (
        lambda on: to_root(on.root / "closed", 0o755),
        rename("b", "open/a.txt", "closed/a.txt"),
    ),
    "edit of somebody else's private file": (FILE_SHUT, B),
    "delete of somebody else's private file": (FILE_SHUT, delete("b", "closed/b.txt")),
    "edit of an own file that may not be read": (lambda on: (on.root / "closed/b.txt").chmod(0o200), B),
}


@pytest.mark.req("PX-34")
@pytest.mark.parametrize("name", some(SEEN_BEFORE, 2))
def test_what_is_closed_is_seen_in_the_preview_and_not_approved(unprivileged: UnprivilegedProject, name: str) -> None:
    close, step = SEEN_BEFORE[name]
    close(unprivileged)
    before = unprivileged.project.tree()
    answer = unprivileged.look(plan_of(create("c", "open/new.txt"), step))
    assert_denied(answer, "WOULD_FAIL")
    assert step["target"] in answer.errors[0][1] or "new_path" in step["operation"]
    assert answer.raised is not None, "it was approved"
    assert answer.raised[0] == Reason.PERMISSION_DENIED
    assert HELP in answer.raised[2]
    assert unprivileged.project.tree() == before


def test_a_folder_that_may_not_even_be_entered_is_a_refusal(unprivileged: UnprivilegedProject) -> None:
    to_root(unprivileged.root / "closed", 0o700)
    before = unprivileged.project.tree()
    answer = unprivileged.look(plan_of(A, B))
    assert answer.raised is not None
    assert answer.raised[0] == Reason.PERMISSION_DENIED
    assert HELP in answer.raised[2]
    assert unprivileged.project.tree() == before


def test_a_read_only_file_of_the_user_is_no_obstacle_and_stays_read_only(unprivileged: UnprivilegedProject) -> None:
    """A file is replaced, not written to: what counts is its folder."""
    (unprivileged.root / "closed/b.txt").chmod(0o444)
    unprivileged.approve(plan_of(A, B))
    assert unprivileged.run("apply").status == "SUCCESS"
    about = (unprivileged.root / "closed/b.txt").stat()
    assert (about.st_mode & 0o7777, about.st_uid) == (0o444, NOBODY)
    assert unprivileged.project.read("closed/b.txt") == "one\nTWO\nthree\n"


# Closed after the approval; and what becomes of the plan.
CLOSED_SINCE: dict[str, tuple[Act, str]] = {
    "the folder is read-only": (FOLDER_READ_ONLY, "FAILED"),
    "the folder is somebody else's": (lambda on: to_root(on.root / "closed", 0o755), "FAILED"),
    "the folder is shut": (lambda on: to_root(on.root / "closed", 0o700), "REFUSED"),
    "the file is shut": (FILE_SHUT, "FAILED"),
    "the reports are somebody else's": (lambda on: output_of_root(on, "agent_outputs", 0o755), "REFUSED"),
    "the reports are shut": (lambda on: output_of_root(on, "agent_outputs", 0o700), "REFUSED"),
    "there is no place for reports": (lambda on: on.root.chmod(0o555), "REFUSED"),
}


@pytest.mark.req("PX-34")
@pytest.mark.parametrize("name", some(CLOSED_SINCE, 2))
def test_what_was_closed_since_the_approval_is_found_before_anything_is_touched(
    unprivileged: UnprivilegedProject, name: str
) -> None:
    unprivileged.approve(plan_of(A, B))
    close, status = CLOSED_SINCE[name]
    close(unprivileged)
    before = unprivileged.project.tree()
    assert_denied(unprivileged.run("apply"), status)
    assert unprivileged.project.tree() == before


def test_a_refused_approval_is_good_for_later(unprivileged: UnprivilegedProject) -> None:
    unprivileged.approve(plan_of(A, B))
    unprivileged.root.chmod(0o555)
    assert_denied(unprivileged.run("apply"), "REFUSED")
    unprivileged.root.chmod(0o755)
    assert unprivileged.run("apply").status == "SUCCESS"


def test_a_log_that_cannot_be_written_is_no_reason_to_fail(unprivileged: UnprivilegedProject) -> None:
    unprivileged.approve(plan_of(A, B))
    output_of_root(unprivileged, "agent_logs", 0o755)
    assert unprivileged.run("apply").status == "SUCCESS"
    assert list((unprivileged.root / "agent_logs").iterdir()) == []


def test_a_folder_closed_while_the_plan_runs_undoes_all_of_it(unprivileged: UnprivilegedProject) -> None:
    unprivileged.approve(plan_of(A, B))
    before = unprivileged.project.tree()
    assert_denied(unprivileged.run("apply", "closed"), "ROLLED_BACK")
    assert unprivileged.project.tree() == before


def test_a_folder_closed_while_the_plan_runs_fails_its_action_alone_if_the_plan_says_so(
    unprivileged: UnprivilegedProject,
) -> None:
    """The recovery matrix: the action is skipped, and marked as failed."""
    unprivileged.approve(plan_of(A, B, stop_on_error=False, rollback_on_failure=False))
    assert_denied(unprivileged.run("apply", "closed"), "PARTIAL")
    assert unprivileged.project.read("open/a.txt") == "one\nTWO\nthree\n"
    assert unprivileged.project.read("closed/b.txt") == TEXT


def _somebody_elses(unprivileged: UnprivilegedProject) -> None:
    to_root(unprivileged.root / "closed/b.txt", 0o644)


def _sticky(unprivileged: UnprivilegedProject) -> None:
    to_root(unprivileged.root / "closed", 0o1777)
    to_root(unprivileged.root / "closed/b.txt", 0o644)


SOMEBODY_ELSES = pytest.mark.parametrize(
    "close, step, foreseen, met",
    [
        (_somebody_elses, B, "the owner of this file cannot be", "the owner or an attribute of this file cannot"),
        (_sticky, B, "this folder is sticky", "the owner or an attribute of this file cannot"),
        (_sticky, delete("b", "closed/b.txt"), "this folder is sticky", "could not be renamed"),
    ],
    ids=["somebody else's file", "somebody else's file in a sticky folder", "delete in a sticky folder"],
)


@SOMEBODY_ELSES
def test_a_readable_file_of_another_user_is_reported_before_the_approval(
    unprivileged: UnprivilegedProject, close: Act, step: dict[str, Any], foreseen: str, met: str
) -> None:
    close(unprivileged)
    before = unprivileged.project.tree()
    answer = unprivileged.look(plan_of(A, step))
    assert answer.status != "APPROVED"
    assert [error[0] for error in answer.errors] == [DENIED]
    assert foreseen in answer.errors[0][1]
    assert met not in answer.errors[0][1]
    assert unprivileged.project.tree() == before


@SOMEBODY_ELSES
def test_a_file_that_got_another_owner_after_the_approval_is_left_alone_and_so_is_all_else(
    unprivileged: UnprivilegedProject, close: Act, step: dict[str, Any], foreseen: str, met: str
) -> None:
    unprivileged.approve(plan_of(A, step))
    close(unprivileged)
    before = unprivileged.project.tree()
    answer = unprivileged.run("apply")
    assert [error[0] for error in answer.errors] == [DENIED]
    assert foreseen in answer.errors[0][1] or met in answer.errors[0][1]
    assert answer.unsettled == 0
    assert unprivileged.project.tree() == before
    assert (unprivileged.root / "closed/b.txt").stat().st_uid == 0


def _all_of_state(unprivileged: UnprivilegedProject, pattern: str, mode: int) -> None:
    for path in unprivileged.state.glob(pattern):
        path.chmod(mode)


# Of the state directory: what is closed, the reason, and a word of the next step.
STATE: dict[str, tuple[Act, Reason, str]] = {
    "its folder is read-only": (lambda on: on.state.chmod(0o500), Reason.STORE_UNAVAILABLE, "writable"),
    "the ledger is read-only": (
        lambda on: _all_of_state(on, "ledger*", 0o400),
        Reason.STORE_UNAVAILABLE,
        "writable",
    ),
    "its folder is somebody else's": (lambda on: to_root(on.state, 0o700), Reason.STATE_UNSAFE, "Run Remit as"),
    "the ledger is somebody else's": (
        lambda on: to_root(on.state / "ledger.sqlite3", 0o600),
        Reason.STATE_UNSAFE,
        "Run Remit as",
    ),
    "the keys may not be read": (lambda on: _all_of_state(on, "keys/*", 0), Reason.STATE_UNSAFE, "Run Remit as"),
}


@pytest.mark.parametrize("name", some(STATE, 2))
def test_a_state_directory_that_is_closed_ends_it_before_it_begins(
    unprivileged: UnprivilegedProject, name: str
) -> None:
    """recovery-023."""
    unprivileged.approve(plan_of(A, B))
    close, reason, help_ = STATE[name]
    close(unprivileged)
    before = unprivileged.project.tree()
    answer = unprivileged.run("apply")
    assert answer.raised is not None, answer
    assert answer.raised[0] == reason
    assert help_ in answer.raised[2]
    assert unprivileged.project.tree() == before
    assert not list(unprivileged.root.rglob(".remit-*"))


def test_a_folder_of_locks_that_is_closed_is_reported_in_plain_words(unprivileged: UnprivilegedProject) -> None:
    unprivileged.approve(plan_of(A, B))
    (unprivileged.state / "hosts").chmod(0o500)
    before = unprivileged.project.tree()
    answer = unprivileged.run("apply")
    assert answer.status == "REFUSED"
    assert "Permission denied" in answer.errors[0][1]
    assert "you may write there" in answer.errors[0][1]
    assert unprivileged.project.tree() == before
