"""Kill a program at its N-th state-changing system call: the crash points that nobody named. Needs `strace`.

The call that is hit does not happen. strace counts each call apart, and each thread apart, so a sweep takes one call
after the other; give it a program of one thread. It never uses `--seccomp-bpf`, which silently disables the injection.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tests.support.child_process import ChildExit, run_child

STATE_CHANGING: Final = (
    "chmod",
    "fallocate",
    "fchmod",
    "fchown",
    "fdatasync",
    "fsync",
    "ftruncate",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
    "msync",
    "pwrite64",
    "pwritev",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "sendto",
    "truncate",
    "unlink",
    "unlinkat",
    "write",
    "writev",
)
"""Opening with O_CREAT is not among them: the call after it meets the same state on the disk."""


def run_killed_at(
    command: Sequence[str], call: str, when: int, *, environment: Mapping[str, str] | None = None, timeout: float = 60.0
) -> ChildExit:
    """Run `command`, killing it as it enters `call` for the `when`-th time. Unharmed if it never does."""
    strace = shutil.which("strace")
    if strace is None:
        raise FileNotFoundError("strace is not installed; on Debian: apt-get install strace")
    injected = [strace, "-f", "-qqq", "-o", "/dev/null", "-e", f"trace={call}"]
    kill = ["-e", f"inject={call}:signal=SIGKILL:when={when}"]
    return run_child([*injected, *kill, "--", *command], environment=environment, timeout=timeout)


def sweep(run: Callable[[int], ChildExit]) -> Iterator[tuple[int, ChildExit]]:
    """`run(when)` for when = 1, 2, ... as long as the child is killed. The unharmed last run is left out."""
    when = 1
    while (ended := run(when)).killed:
        yield when, ended
        when += 1
    if ended.exit_code != 0:
        raise AssertionError(f"the program failed by itself: exit code {ended.exit_code}\n{ended.output}")
