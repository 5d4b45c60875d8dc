"""Hostile paths against each role that a path can have in a plan: refused with a reason, and nothing anywhere is
changed. And the odd but harmless ones, which must work: refusing everything is no defence.

Those of the list that are tried elsewhere, or do not apply to plans:
- race-002, race-003 and race-007 to race-011 are in test_attacking_races.py; race-005 is rollback/test_drift.py.
- lease-*, approval-*: test_attacks_on_approvals.py. parse-*: test_attacks_by_content.py and tests/effects/edits.
- path-018 is bytes that are no UTF-8: no plan can hold them, which is what is shown here.
"""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click
import pytest

from remit.cli.plans.render import render_outcome, render_preview
from remit.core.errors import RefusedError
from tests.plans.hostile_project import SECRET, HostileProject, action, plan_of
from tests.support.small_disks import require_root

ROLES: Final = ("create", "modify", "delete", "rename from", "rename to")
EXISTING: Final = ("modify", "delete", "rename from")
PROC_ROOT: Final = "/proc/self/ro" + "ot"


class Attack(NamedTuple):
    """A path (`{ws}` and `{state}` are filled in), what is put in place for it, and the roles it is tried in."""

    id: str
    path: str
    setup: str = ""
    roles: tuple[str, ...] = ROLES


DENIED: Final = (
    Attack("path-002", "../ws-secret/secret.txt"),
    Attack("path-002", "{ws}-secret/secret.txt"),
    Attack("path-009", "{ws}/../outside/secret.txt"),
    Attack("path-010", "./sub/./.././../outside/secret.txt"),
    Attack("path-011", "sub/.."),
    Attack("path-011", "sub/."),
    Attack("path-013", ""),
    Attack("path-014", "~/.ssh/authorized_keys"),
    Attack("path-019", "..\\outside\\secret.txt"),
    Attack("path-020", "．．／outside／secret.txt"),
    Attack("path-022", "sub/ok.txt\0.png"),
    Attack("path-032", "a" * 256),
    Attack("path-033", "d/" * 2500 + "x"),
    Attack("path-034", "d/" * 1000 + "x"),
    Attack("path-035", "sub/\ud800x"),
    Attack("path-036", "link", "symlink ../outside/secret.txt"),
    Attack("path-038", "link/secret.txt", "symlink ../outside"),
    Attack("path-039", "link/new.txt", "symlink ../outside"),
    Attack("path-041", "link/passwd", "symlink /etc"),
    Attack("path-042", "link", "symlink link"),
    Attack("path-043", "c0", "chain"),
    Attack("path-044", "link/ws/sub/ok.txt", "symlink .."),
    Attack("path-045", f"{PROC_ROOT}/etc/passwd"),
    Attack("path-046", "/proc/self/cwd/../outside/secret.txt"),
    Attack("path-047", "link/etc/passwd", f"symlink {PROC_ROOT}"),
    Attack("path-048", "/dev/fd/3"),
    Attack("path-050", "/proc/self/mem"),
    Attack("path-051", "hard", "hardlink"),
    Attack("path-053", "fifo", "fifo"),
    Attack("path-054", "sock", "socket"),
    Attack("path-055", "dev", "device"),
    Attack("path-056", "sub"),
    Attack("path-057", "mnt/secret.txt", "bind"),
    Attack("path-058", "sparse", "sparse", EXISTING),
    Attack("path-060", "sub/../protected/.env"),
    Attack("path-064", "protected", roles=("delete", "rename from")),
    Attack("path-066", ".git/hooks/pre-commit", "git"),
    Attack("path-070", "../**"),
    Attack("path-073", "{state}/keys/kernel.pem"),
    Attack("path-074", "{state}/ledger.sqlite3"),
    Attack("PX-32", "agent_outputs/reports/x", roles=("create", "rename to")),
    Attack("PX-32", "Agent_Outputs/x", roles=("create", "rename to")),
    Attack("PX-32", "agent_logs/executor/x", roles=("create", "rename to")),
    Attack("PX-32", "remit.yaml"),
    Attack("PX-32", "sub/remit.yaml", roles=("create", "rename to")),
    Attack("PX-06", "protected/.ENV", roles=("create", "rename to")),
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileProject]:
    """One for all: each case must leave it as it was, which each case checks."""
    made = HostileProject.make(tmp_path_factory.mktemp("hostile"))
    yield made
    made.workspace.close()


@contextmanager
def put_in_place(hostile: HostileProject, setup: str) -> Iterator[None]:
    what, _, target = setup.partition(" ")
    root, made = hostile.root, []
    match what:
        case "symlink":
            made = [root / "link"]
            made[0].symlink_to(target)
        case "chain":
            made = [root / f"c{number}" for number in range(41)]
            for number, link in enumerate(made):
                link.symlink_to(f"c{number + 1}" if number < 40 else "sub/ok.txt")
        case "hardlink":
            made = [root / "hard"]
            made[0].hardlink_to(hostile.folder / "outside/secret.txt")
        case "sparse":
            made = [root / "sparse"]
            made[0].touch()
            os.truncate(made[0], 8 << 40)
        case "git":
            (root / ".git/hooks").mkdir(parents=True, exist_ok=True)
            made = [root / ".git/hooks/pre-commit"]
            made[0].write_text("true\n")
        case "bind":
            (root / "mnt").mkdir(exist_ok=True)
            subprocess.run(["mount", "--bind", hostile.folder / "outside", root / "mnt"], check=True)
        case _:
            made = _special(root, what)
    try:
        yield
    finally:
        if what == "bind":
            subprocess.run(["umount", root / "mnt"], check=True)
        for path in made:
            path.unlink()


def _special(root: Path, what: str) -> list[Path]:
    match what:
        case "fifo":
            os.mkfifo(root / "fifo")
            return [root / "fifo"]
        case "socket":
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(root / "sock"))
            return [root / "sock"]
        case "device":
            os.mknod(root / "dev", 0o600 | 0o020000, os.makedev(1, 5))
            return [root / "dev"]
        case _:
            return []


def _is_slow(attack: Attack, role: str) -> bool:
    """A thousand folders are looked for, which takes seconds."""
    return attack.id == "path-034" and role in EXISTING


@pytest.mark.req("PX-05", "PX-23", "PX-32", "PX-34", "PX-06")
@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.long)])
def test_no_plan_reaches_a_denied_path(hostile: HostileProject, subtests: pytest.Subtests, *, slow: bool) -> None:
    for attack, role in ((each, role) for each in DENIED for role in each.roles):
        if _is_slow(attack, role) is not slow:
            continue
        with subtests.test(f"{attack.id} {attack.path[:24]!a} {role}"):
            if attack.setup in {"device", "bind"}:
                require_root()
            path = attack.path.format(ws=hostile.root, state=hostile.workspace.state.path)
            plan = plan_of(action(role, path))
            with put_in_place(hostile, attack.setup):
                inputs = hostile.inputs("sub/ok.txt") if role == "rename to" else ()
                hostile.assert_out_of_reach(plan, inputs=inputs)
            assert (hostile.folder / "outside/secret.txt").read_bytes() == SECRET


@pytest.mark.req("PX-03")
@pytest.mark.parametrize("role", ROLES)
def test_each_role_works_where_nothing_is_wrong(hostile: HostileProject, role: str) -> None:
    """Else the test above would prove nothing."""
    before = hostile.world()
    path = "sub/ok.txt" if role in EXISTING else "sub/other.txt"
    outcome = hostile.approved(plan_of(action(role, path)))
    assert outcome.status.status == "SUCCESS"
    assert hostile.world() != before
    assert hostile.workspace.rollback(outcome.status.envelope_id).status == "EXECUTED"
    assert hostile.world() == before


def test_a_path_that_is_no_utf8_is_no_plan_at_all(hostile: HostileProject) -> None:
    plan = plan_of(action("create", "HERE")).replace(b"HERE", b"..\xc0\xaf..\xc0\xafoutside/secret.txt")
    with pytest.raises(RefusedError):
        hostile.workspace.preview(plan)


@pytest.mark.req("PX-05")
def test_an_odd_name_is_a_name(hostile: HostileProject, subtests: pytest.Subtests) -> None:
    for path in [
        "--help",
        "sub/..foo",
        "sub/...",
        "sub/a..b",
        "sub/文書.txt",
        "a" * 255,
        "sub/C:\\x",
        "sub//twice.txt",
    ]:
        with subtests.test(path):
            before = hostile.world()
            outcome = hostile.approved(plan_of(action("create", path)))
            assert outcome.status.status == "SUCCESS"
            assert (hostile.root / path).read_bytes() == b"mine\n"
            taken_back = hostile.workspace.rollback(outcome.status.envelope_id)
            assert taken_back.status == "EXECUTED"
            assert hostile.world() == before


@pytest.mark.req("PX-05", "PX-10")
def test_a_read_only_file_is_changed_and_stays_read_only(hostile: HostileProject) -> None:
    target = hostile.root / "ro"
    target.write_bytes(b"text\n")
    target.chmod(0o444)
    assert hostile.approved(plan_of(action("modify", "ro"))).status.status == "SUCCESS"
    assert (target.read_bytes(), target.stat().st_mode & 0o7777) == (b"tExt\n", 0o444)
    target.unlink()


def test_an_empty_file_is_a_file(hostile: HostileProject) -> None:
    asked = action("create", "sub/empty") | {"operation": {"type": "write", "content": ""}}
    assert hostile.approved(plan_of(asked)).status.status == "SUCCESS"
    assert (hostile.root / "sub/empty").read_bytes() == b""
    assert hostile.approved(plan_of(action("delete", "sub/empty"))).status.status == "SUCCESS"


@pytest.mark.parametrize(
    "path", ["sub/a\nb", "sub/\x1b[2J\x1b[31mok", "sub/\u202egpj.exe"], ids=["path-023", "path-024", "reversed"]
)
def test_a_name_that_a_terminal_would_obey_is_spelled_out_wherever_it_is_shown(
    hostile: HostileProject, path: str
) -> None:
    plan = plan_of(action("create", path))
    seen = hostile.workspace.preview(plan).document
    allowed = {kind: getattr(seen.needs, kind) for kind in ("protected", "executable", "content")}
    outcome = hostile.approved(plan, **allowed)
    assert outcome.status.status == "SUCCESS"
    assert (hostile.root / path).exists()
    lines = [click.unstyle(line) for line in (*render_preview(seen), *render_outcome(outcome))]
    assert [line for line in lines if not line.isprintable()] == []
    shown = "\n".join(lines)
    assert path not in shown
    assert path.encode("unicode_escape").decode() in shown
    (hostile.root / path).unlink()


def test_a_folder_with_a_dot_at_its_end_is_shown_as_it_is_and_its_env_file_stays_protected(
    hostile: HostileProject,
) -> None:
    plan = plan_of(action("create", "protected./.env"))
    assert hostile.workspace.preview(plan).document.needs.protected == ("protected./.env",)
    hostile.assert_out_of_reach(plan)


@pytest.mark.req("PX-06")
def test_a_protected_file_is_touched_with_an_approval_for_that_very_file_and_no_other(hostile: HostileProject) -> None:
    plan = plan_of(action("modify", "protected/.env"))
    before = hostile.world()
    for name in ("protected", ".env", "protected/*", "protected/.env2"):
        outcome = hostile.workspace.apply(
            hostile.blindly(plan, hostile.inputs("protected/.env"), protected=(name,)).canonical()
        )
        assert hostile.codes(outcome) == {1006}
    assert hostile.world() == before
    outcome = hostile.approved(plan, protected=("protected/.env",))
    assert outcome.status.status == "SUCCESS"
    assert hostile.workspace.rollback(outcome.status.envelope_id).status == "EXECUTED"
    assert hostile.world() == before


@pytest.mark.req("PX-31")
def test_a_summary_that_an_agent_wrote_is_no_part_of_a_plan(hostile: HostileProject) -> None:
    """approval-023: what people see is rendered from the actions, so there is no text to lie with."""
    with pytest.raises(RefusedError):
        hostile.workspace.preview(plan_of(action("delete", "sub/ok.txt"), summary="fix a typo"))
    asked = action("delete", "sub/ok.txt", "fix-a-typo")
    shown = "\n".join(render_preview(hostile.workspace.preview(plan_of(asked)).document))
    assert "delete sub/ok.txt" in shown
    assert json.loads(plan_of(asked))["action_plan"][0]["action_id"] in shown
