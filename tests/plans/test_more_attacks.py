"""More of the kinds in test_attacks.py and test_attacks_on_approvals.py: other links, mounts and names, plans that turn
on themselves, envelopes that were borrowed or bent, and a process that was thought dead.

Not for plans at all: approval-014 to 016 and 025, which want a page to click on; parse-037 and 038, since no action
unpacks anything; lease-029, 030, 042, 044, 051, 060, 064, 065, 067 and 068, for an envelope has no such part.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import pytest

from remit.cli.plans.render import render_preview
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.core.errors import RemitError
from remit.store.process_identity import is_childless
from tests.plans.hostile_project import SECRET, HostileProject, action, plan_of
from tests.support.sampling import some
from tests.support.small_disks import require_root
from tests.support.task_workspace import MovableClock

ROLES: Final = ("create", "modify", "delete", "rename from", "rename to")
NEW: Final = ("create", "rename to")
EXISTING: Final = ("modify", "delete", "rename from")


class Attack(NamedTuple):
    kind: str
    path: str
    setup: str = ""
    roles: tuple[str, ...] = ROLES


DENIED: Final = (
    # Links that stay inside are links all the same; a link of a descriptor leads anywhere.
    Attack("path-036 to itself", "link/sub/ok.txt", "symlink ."),
    Attack("path-036 inside", "link", "symlink sub/ok.txt"),
    Attack("path-038 inside", "link/ok.txt", "symlink sub"),
    Attack("path-037 dangling", "link", "symlink sub/none.txt"),
    Attack("path-037 dangling outside", "link", "symlink ../outside/new.txt"),
    Attack("path-047 descriptor", "link", "symlink /proc/self/fd/0"),
    Attack("path-047 folder of descriptors", "link/0", "symlink /proc/self/fd"),
    # A second name of a file: of one inside, and of one that is protected.
    Attack("path-052 inside", "twin", "twin sub/ok.txt"),
    Attack("path-052 protected", "innocent.txt", "twin protected/.env"),
    # What is mounted is not the project's, be it a file, be it an empty disk.
    Attack("path-057 one file", "sub/mounted.txt", "bind-file"),
    Attack("path-057 another disk", "mnt/file.txt", "tmpfs"),
    Attack("path-055 block device", "disk", "block-device"),
    # Names.
    Attack("path-045 another process", "/proc/1/cwd/x"),
    Attack("path-045 this thread", "/proc/thread-self/cwd/x"),
    Attack("path-048 standard input", "/dev/stdin"),
    Attack("path-020 two-dot leader", "‥/outside/secret.txt"),
    Attack("path-020 small full stop", "﹒﹒/outside/secret.txt"),
    Attack("path-022 at the end", "sub/ok.txt\0"),
    Attack("path-032 wide letters", "文" * 86),
    Attack("path-011 the root", "."),
    Attack("path-011 a slash", "sub/ok.txt/"),
    Attack("path-073 relative", "../state"),
    # Protected and forbidden, however they are spelled.
    Attack("path-066 other case", ".GIT/hooks/pre-commit", roles=NEW),
    Attack("path-066 a file of that name", ".git", roles=NEW),
    Attack("path-066 of a folder below", "sub/.git/config", roles=NEW),
    Attack("path-060 two slashes", "protected//.env", roles=EXISTING),
    Attack("path-060 dots", "./protected/./.env", roles=EXISTING),
    Attack("approval-028 other case", "REMIT.YAML", roles=NEW),
    Attack("path-074 its own parts", ".remit-0123456789abcdef01234567.part", roles=NEW),
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileProject]:
    """One for all: each case must leave it as it was."""
    made = HostileProject.make(tmp_path_factory.mktemp("hostile"))
    yield made
    made.workspace.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[HostileProject]:
    made = HostileProject.make(tmp_path / "hostile")
    yield made
    made.workspace.close()


@contextmanager
def put_in_place(hostile: HostileProject, setup: str) -> Iterator[None]:
    what, _, target = setup.partition(" ")
    root = hostile.root
    made: Path | None = None
    mounted: Path | None = None
    match what:
        case "symlink":
            made = root / "link"
            made.symlink_to(target)
        case "twin":
            made = root / ("innocent.txt" if "protected" in target else "twin")
            made.hardlink_to(root / target)
        case "bind-file":
            made = mounted = root / "sub/mounted.txt"
            made.touch()
            subprocess.run(["mount", "--bind", hostile.folder / "outside/secret.txt", mounted], check=True)
        case "tmpfs":
            mounted = root / "mnt"
            mounted.mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", mounted], check=True)
            (mounted / "file.txt").write_bytes(SECRET)
        case "block-device":
            made = root / "disk"
            os.mknod(made, 0o600 | 0o060000, os.makedev(7, 0))
    try:
        yield
    finally:
        if mounted is not None:
            subprocess.run(["umount", mounted], check=True)
        if made is not None:
            made.unlink()


@pytest.mark.req("PX-05", "PX-23", "PX-32", "PX-34", "PX-06")
def test_no_plan_reaches_any_further_denied_path(hostile: HostileProject, subtests: pytest.Subtests) -> None:
    for attack, role in ((each, role) for each in DENIED for role in each.roles):
        with subtests.test(f"{attack.kind} {role}"):
            if attack.setup in {"bind-file", "tmpfs", "block-device"}:
                require_root()
            with put_in_place(hostile, attack.setup):
                hostile.assert_out_of_reach(
                    plan_of(action(role, attack.path)),
                    inputs=hostile.inputs("sub/ok.txt") if role == "rename to" else (),
                )
            assert (hostile.folder / "outside/secret.txt").read_bytes() == SECRET


LITERAL: Final = (
    "%2e%2e/%2e%2e/outside",
    "..%2foutside%2fsecret.txt",
    "file:///etc/passwd",
    "$HOME/ssh",
    "$(touch pwned)",
    "; touch pwned",
    "a'b\"c",
    "-rf",
    "*",
    "<img src=x onerror=alert(1)>",
    "{ws}",
    "文" * 85,
    "sub/NUL",
    "sub/trailing ",
)


@pytest.mark.req("PX-05")
def test_what_another_program_would_read_something_into_is_a_name_and_shown_as_it_is(
    hostile: HostileProject, subtests: pytest.Subtests
) -> None:
    """approval-017 among them: nothing is decoded, expanded or run, neither here nor where it is shown."""
    for path in LITERAL:
        with subtests.test(path):
            before = hostile.world()
            plan = plan_of(action("create", path))
            shown = "\n".join(click.unstyle(line) for line in render_preview(hostile.workspace.preview(plan).document))
            assert path.strip().replace("///", "/") in shown
            outcome = hostile.approved(plan)
            assert outcome.status.status == "SUCCESS"
            assert (hostile.root / path).read_bytes() == b"mine\n"
            assert not list(hostile.folder.rglob("pwned"))
            assert hostile.workspace.rollback(outcome.status.envelope_id).status == "EXECUTED"
            assert hostile.world() == before


def test_a_name_with_look_alike_letters_is_another_file(hostile: HostileProject) -> None:
    """approval-022: a Cyrillic letter that looks like a Latin one gets nobody at the file that it looks like."""
    twin = "sub/\u043ek.txt"
    before = hostile.world()
    hostile.assert_out_of_reach(plan_of(action("modify", twin)))
    outcome = hostile.approved(plan_of(action("create", twin)))
    assert (hostile.root / "sub/ok.txt").read_bytes() == b"some text here\n"
    assert hostile.workspace.rollback(outcome.status.envelope_id).status == "EXECUTED"
    assert hostile.world() == before


# --- plans that turn on themselves ------------------------------------------------------------------------------------

OWN_GROUND: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "a file that becomes a folder": (action("create", "d", "a1"), action("create", "d/e", "a2")),
    "a folder that becomes a file": (action("create", "d/e", "a1"), action("create", "d", "a2")),
    "out by a rename of its own file": (
        action("create", "x", "a1"),
        {**action("rename from", "x", "a2"), "operation": {"type": "rename", "new_path": "../outside/x"}},
    ),
    "protected by a rename of its own file": (
        action("create", "x", "a1"),
        {**action("rename from", "x", "a2"), "operation": {"type": "rename", "new_path": "protected/.env"}},
    ),
    "its own reports by a rename": (
        action("create", "x", "a1"),
        {**action("rename from", "x", "a2"), "operation": {"type": "rename", "new_path": "agent_outputs/x"}},
    ),
    "one new file by two spellings": (action("create", "x", "a1"), action("create", ".//x", "a2")),
    "gone before it is edited": (action("delete", "sub/ok.txt", "a1"), action("modify", "./sub//ok.txt", "a2")),
    "one id for two": (action("create", "x", "a1"), action("create", "y", "a1")),
    "waits for itself": (action("create", "x", "a1", depends_on=["a1"]),),
    "waits in a ring": (
        action("create", "x", "a1", depends_on=["a2"]),
        action("create", "y", "a2", depends_on=["a1"]),
    ),
}


@pytest.mark.req("PX-05", "PX-06", "PX-34")
def test_no_plan_prepares_the_ground_for_itself(hostile: HostileProject, subtests: pytest.Subtests) -> None:
    for name in OWN_GROUND:
        with subtests.test(name):
            plan = plan_of(*OWN_GROUND[name])
            inputs = hostile.inputs("sub/ok.txt") if "gone" in name else ()
            hostile.assert_out_of_reach(plan, inputs=inputs)


# --- envelopes that were borrowed or bent -----------------------------------------------------------------------------


def bent(hostile: HostileProject) -> dict[str, Any]:
    return hostile.workspace.approve(plan_of(action("delete", "sub/ok.txt"))).tree()


Bend = Callable[[dict[str, Any]], bytes]
BENT: Final[dict[str, Bend]] = {
    "lease-003 alg NONE": lambda good: json.dumps({**good, "alg": "NONE"}).encode(),
    "lease-026 b64 false": lambda good: json.dumps({**good, "b64": False, "crit": ["b64"]}).encode(),
    "lease-033 not before": lambda good: json.dumps({**good, "nbf": 4_000_000_000}).encode(),
    "two of one field": lambda good: json.dumps(good).encode()[:-1] + b', "status": "APPROVED"}',
    "two of one field in the plan": lambda good: (
        json.dumps(good).encode().replace(b'"target":', b'"target": "protected/.env", "target":')
    ),
    "garbage behind it": lambda good: json.dumps(good).encode() + b" x",
    "two of them": lambda good: 2 * json.dumps(good).encode(),
    "a list of one": lambda good: json.dumps([good]).encode(),
    "UTF-16": lambda good: json.dumps(good).encode("utf-16"),
    "a mark in front": lambda good: b"\xef\xbb\xbf" + json.dumps(good).encode(),
    "100,000 deep": lambda good: json.dumps({**good, "plan": "@"}).encode().replace(b'"@"', b"[" * 100_000),
    "a half letter": lambda good: json.dumps(good).encode().replace(b"hostile", b"\\ud800"),
    "nothing": lambda _: b"",
    "other case of a field": lambda good: json.dumps(good).encode().replace(b'"status"', b'"Status"'),
}


@pytest.mark.req("PX-01", "PX-02")
def test_a_bent_envelope_is_refused(hostile: HostileProject, subtests: pytest.Subtests) -> None:
    for name in BENT:
        with subtests.test(name):
            raw = BENT[name](bent(hostile))
            before = hostile.world()
            outcome = hostile.workspace.apply(raw)
            assert isinstance(outcome, PlanRefusal)
            assert hostile.codes(outcome) <= {1001, 1002, 1003}
            assert hostile.world() == before


@pytest.mark.req("PX-01", "PX-02")
def test_an_approval_of_another_workspace_is_none_here(fresh: HostileProject, tmp_path: Path) -> None:
    """lease-066: the same files, the same settings, another key."""
    other = HostileProject.make(tmp_path / "other")
    envelope = other.workspace.approve(plan_of(action("delete", "sub/ok.txt"))).canonical()
    other.workspace.close()
    before = fresh.world()
    outcome = fresh.workspace.apply(envelope)
    assert isinstance(outcome, PlanRefusal)
    assert fresh.codes(outcome) == {1002}
    assert fresh.world() == before


@pytest.mark.req("PX-01")
def test_the_id_of_an_approval_is_no_approval(fresh: HostileProject) -> None:
    """approval-013: whoever knows, or guesses, the id of one can do no more than before."""
    envelope = fresh.workspace.approve(plan_of(action("delete", "sub/ok.txt")))
    before = fresh.world()
    for claim in (envelope.envelope_id, {"envelope_id": envelope.envelope_id, "status": "APPROVED"}):
        outcome = fresh.workspace.apply(json.dumps(claim).encode())
        assert isinstance(outcome, PlanRefusal)
        assert fresh.codes(outcome) == {1001}
    assert fresh.world() == before


@pytest.mark.req("PX-01")
def test_a_plan_is_not_an_envelope(fresh: HostileProject) -> None:
    before = fresh.world()
    outcome = fresh.workspace.apply(plan_of(action("delete", "sub/ok.txt")))
    assert isinstance(outcome, PlanRefusal)
    assert fresh.codes(outcome) == {1001}
    assert fresh.world() == before


@pytest.mark.req("PX-01", "PX-02")
def test_a_clock_that_is_set_forth_and_back_gets_no_second_run_out_of_an_approval(tmp_path: Path) -> None:
    """lease-070: a used approval is used, whatever time it is; and one from the future is not valid yet."""
    clock = MovableClock()
    hostile = HostileProject.make(tmp_path / "hostile", clock)
    try:
        envelope = hostile.workspace.approve(plan_of(action("modify", "sub/ok.txt"))).canonical()
        first = hostile.workspace.apply(envelope)
        assert isinstance(first, PlanOutcome)
        (hostile.root / "sub/ok.txt").write_bytes(b"some text here\n")  # as it was approved, so nothing else hinders it
        before = hostile.world()
        for offset, code in ((timedelta(days=2), 1004), (timedelta(hours=-1), 1002)):
            clock.offset = offset
            outcome = hostile.workspace.apply(envelope)
            assert isinstance(outcome, PlanRefusal)
            assert hostile.codes(outcome) == {code}
        clock.offset = timedelta(0)
        assert hostile.workspace.apply(envelope) == first
        assert hostile.world() == before
    finally:
        hostile.workspace.close()


@pytest.mark.req("PX-02")
def test_an_approval_that_has_expired_does_not_revive_when_the_clock_is_set_back(tmp_path: Path) -> None:
    """lease-070: it was refused as expired, and the ledger knows how late it was then."""
    clock = MovableClock()
    hostile = HostileProject.make(tmp_path / "hostile", clock)
    try:
        envelope = hostile.workspace.approve(plan_of(action("modify", "sub/ok.txt"))).canonical()
        before = hostile.world()
        for offset in (timedelta(days=2), timedelta(0)):
            clock.offset = offset
            assert hostile.codes(hostile.workspace.apply(envelope)) == {1004}
        assert hostile.world() == before
    finally:
        hostile.workspace.close()


@pytest.mark.req("PX-02")
def test_an_approver_whose_key_was_taken_after_the_preview_approves_nothing(fresh: HostileProject) -> None:
    """approval-027: the key is loaded when the approval is signed, not when the plan is looked at."""
    plan = plan_of(action("delete", "sub/ok.txt"))
    assert fresh.workspace.preview(plan).document.status == "READY"
    shutil.rmtree(fresh.workspace.state.keys / "protocol")
    with pytest.raises(RemitError) as caught:
        fresh.workspace.approve(plan)
    assert caught.value.next_step
    with fresh.workspace.store.reading() as connection:
        assert list(connection.rows("SELECT 1 FROM ledger_entries WHERE kind = 'envelope.issued'")) == []


# --- a process that was thought dead ----------------------------------------------------------------------------------

SLEEPER: Final = """
import os, signal, sys
from remit.workspace.workspace import Workspace
pending = [sys.argv[3]]
def sleep(update):
    if update.phase in pending:
        pending.clear()
        os.kill(os.getpid(), signal.SIGSTOP)
with Workspace.open(sys.argv[1]) as workspace:
    print(workspace.apply(open(sys.argv[2], "rb").read(), on_status=sleep).status.status)
"""


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("phase", some(["RUNNING", "VERIFYING"], 1))
def test_a_process_that_sleeps_is_not_taken_for_dead_even_by_one_who_says_so(
    fresh: HostileProject, tmp_path: Path, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """recovery-021: it holds its lock, so nobody settles behind its back what it will go on with when it wakes."""
    monkeypatch.setattr(is_childless, "__defaults__", (0.5,))  # seconds: it waits as long, whatever they are
    envelope = fresh.workspace.approve(plan_of(action("modify", "sub/ok.txt")))
    kept = tmp_path / "envelope.json"
    kept.write_bytes(envelope.canonical())
    command = [sys.executable, "-c", SLEEPER, str(fresh.root), str(kept), phase]
    environ = {**os.environ, "REMIT_STATE": str(fresh.folder / "state")}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as sleeper:
        try:
            os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED)
            asleep = fresh.world()
            assert fresh.workspace.recover() == []
            (report,) = fresh.workspace.recover(presumed_dead=[envelope.envelope_id])
            assert report.outcome is None
            assert report.problem is not None
            assert report.problem.next_step
            assert fresh.world() == asleep
        finally:
            sleeper.send_signal(signal.SIGCONT)
        told, _ = sleeper.communicate(timeout=60)
    assert told.strip() == "SUCCESS"
    assert (fresh.root / "sub/ok.txt").read_bytes() == b"somE tExt hErE\n"
    assert fresh.workspace.recover() == []
    assert fresh.workspace.verify_ledger().holds
