"""What a program reaches: its folder, the modules of Remit's Python, and no more. Without walls each way is open."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.effects.pipelines.pipeline_sandbox import ROOT, SECRET, Bench

FILES: Final = {
    "read a file of the system": 'open("/etc/passwd").read()',
    "read a file outside": 'open(outside + "/secret.txt").read()',
    "read it from below": 'open("../outside/secret.txt").read()',
    "list a folder outside": "os.listdir(outside)",
    "list the folder above": 'os.listdir("..")',
    "list the root": 'os.listdir("/")',
    "write a file outside": 'open(outside + "/secret.txt", "a").close()',
    "make a file outside": 'open(outside + "/made", "w").close()',
    "make a folder outside": 'os.mkdir(outside + "/made")',
    "remove a file outside": 'os.remove(outside + "/secret.txt")',
    "move a file outside": 'open("a", "w").close(); os.rename("a", outside + "/a")',
    "fetch a file from outside": 'os.rename(outside + "/secret.txt", "a")',
    "read through a link that lay there": 'open("planted").read()',
    "write through a link that lay there": 'open("planted", "a").close()',
    "enter a linked folder": 'os.listdir("planted-folder")',
    "read after chdir": 'os.chdir(outside); open("secret.txt").read()',
    "make a link": 'os.symlink("/etc/passwd", "made")',
    "make a second name": 'open("a", "w").close(); os.link("a", "b")',
    "make a fifo": 'os.mkfifo("fifo")',
    "read its own environment": 'open("/proc/self/environ").read()',
    "read its own memory": 'open("/proc/self/mem", "rb").close()',
    "read its own map": 'open("/proc/self/maps").read()',
    "list its descriptors": 'os.listdir("/proc/self/fd")',
    "go through its root": 'open("/proc/self/" + "root/etc/passwd").read()',
    "go through its folder": 'open("/proc/self/cwd/../outside/secret.txt").read()',
    "read of its parent": 'open(f"/proc/{os.getppid()}/cmdline").read()',
    "list the processes": 'os.listdir("/proc")',
    "read the mounts": 'open("/proc/mounts").read()',
    "list control groups": 'os.listdir("/sys/fs/cgroup")',
    "use memory that others share": 'open("/dev/shm/remit-probe", "w").close(); os.remove("/dev/shm/remit-probe")',
    "write to the temporary folder": 'open("/tmp/remit-probe", "w").close(); os.remove("/tmp/remit-probe")',
    "change a module of Python": "open(os.__file__, 'a').close()",
    "make a file beside the modules": (
        "name = os.path.dirname(os.__file__) + '/remit_probe'; open(name, 'w').close(); os.remove(name)"
    ),
    "map a file to write": """
        with open("mapped", "wb+") as file:
            file.truncate(4096)
            mmap.mmap(file.fileno(), 4096).close()
    """,
    "allocate without writing": 'file = open("big", "wb"); os.posix_fallocate(file.fileno(), 0, 4096)',
}
PROCESSES: Final = {
    "fork": "if (pid := os.fork()) == 0: os._exit(0)\nos.waitpid(pid, 0)",
    "run a shell": "if os.system('true'): raise PermissionError",
    "run a program": "subprocess.run(['/bin/true'], check=True)",
    "spawn": "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)",
    "a process of multiprocessing": (
        "one = multiprocessing.get_context('fork').Process(target=int); one.start(); one.join()"
    ),
    "a lock of multiprocessing": "multiprocessing.Lock()",
    "a pipe": "os.pipe()",
    "a socket": "socket.socket().close()",
    "a socket of UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()",
    "a local socket": "socket.socket(socket.AF_UNIX).close()",
    "a pair of sockets": "socket.socketpair()",
    "a socket of C": "must(libc.socket(2, 1, 0))",
    "fork in C": "if must(libc.fork()) == 0: os._exit(0)",
    "a file that is only in memory": "must(libc.memfd_create(b'x', 0))",
    "a name space": "must(libc.unshare(0x400))",
    "signal the parent": "os.kill(os.getppid(), 0)",
    "signal itself": "os.kill(os.getpid(), 0)",
    "trace itself": "must(libc.ptrace(0, 0, 0, 0))",
    "give away the lock": "fcntl.flock(3, fcntl.LOCK_UN)",
    "give away a copy of the lock": "fcntl.flock(os.dup(3), fcntl.LOCK_UN)",
    "close the lock": "os.close(3)",
    "set a limit": "must(libc.setrlimit(resource.RLIMIT_CORE, (ctypes.c_ulong * 2)()))",
    "go before others": "os.setpriority(os.PRIO_PROCESS, 0, 5)",
    "own a file": "open('a', 'w').close(); os.chown('a', os.getuid(), os.getgid())",
    "set an attribute": "open('a', 'w').close(); os.setxattr('a', 'user.a', b'x')",
}


def planted(bench: Bench) -> Bench:
    (bench.scratch / "planted").symlink_to(bench.secret)
    (bench.scratch / "planted-folder").symlink_to(bench.outside)
    return bench


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("way", FILES)
def test_no_file_outside_is_reached(bench: Bench, way: str) -> None:
    assert planted(bench).attempt(FILES[way]) == "PermissionError"
    assert bench.secret.read_text() == SECRET
    assert os.listdir(bench.outside) == ["secret.txt"]


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("way", PROCESSES)
def test_no_process_socket_or_limit_is_to_be_had(bench: Bench, way: str) -> None:
    assert bench.attempt(PROCESSES[way]) == "PermissionError"


# In these the attempt itself fails on some machines, or harms the test: of a lock that everybody holds, for example.
_NOT_LOOSE: Final = frozenset(
    {"give away the lock", "give away a copy of the lock", "close the lock", "a name space", "trace itself"}
)


@pytest.mark.parametrize("way", [*FILES, *(way for way in PROCESSES if way not in _NOT_LOOSE)])
def test_without_the_walls_each_way_is_open(loose: Bench, way: str) -> None:
    assert planted(loose).attempt((FILES | PROCESSES)[way]) == "done"


@pytest.mark.req("FX-11")
@pytest.mark.parametrize(
    "attempt",
    [
        'os.chmod(outside + "/secret.txt", 0o777)',
        "os.fchmod(os.open(os.__file__, os.O_RDONLY), 0o777)",
        'os.utime(outside + "/secret.txt", (1, 1))',
        'must(libc.chmod(os.fsencode(outside + "/secret.txt"), 0o777))',
    ],
)
def test_modes_and_times_are_not_set_although_the_calls_seem_to_succeed(bench: Bench, attempt: str) -> None:
    """Landlock does not govern them. Programs that copy files set them all the time, and must not fail of it."""
    library = Path(os.__file__)
    before = [(one.stat().st_mode, one.stat().st_mtime_ns) for one in (bench.secret, library)]
    assert bench.attempt(attempt) == "done"
    assert [(one.stat().st_mode, one.stat().st_mtime_ns) for one in (bench.secret, library)] == before


@pytest.mark.req("FX-11")
def test_there_is_no_environment_but_a_home(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_PROBE_TOKEN", "hunter2")
    ran = bench.probe("print(sorted(os.environ)); print(sorted(os.listdir('.')))")
    assert ran.log[0] == "['HOME', 'TMPDIR']"
    assert ran.log[1] == "['.remit-pipeline', 'probe.py']"


@pytest.mark.req("FX-11")
def test_the_program_holds_nothing_of_the_hosts(bench: Bench) -> None:
    """Descriptors: the standard streams, the lock, the channel, its folder, the log, and names of libraries."""
    ran = bench.probe("""
        for number in range(512):
            try:
                flags = fcntl.fcntl(number, fcntl.F_GETFL)
            except OSError:
                continue
            if flags & os.O_PATH or number < 5:
                continue
            mode = os.fstat(number).st_mode
            print("folder" if mode & 0o170000 == 0o040000 else "file", os.fstat(number).st_nlink)
    """)
    words = sorted(line.split()[0] for line in ran.log)
    assert words == ["file", "folder"]
    assert "file 0" in ran.log  # the log, which has no name


@pytest.mark.req("FX-11")
def test_code_that_a_program_brings_along_has_no_more_calls(bench: Bench, tmp_path: Path) -> None:
    """A library of one's own can be loaded; what it asks of the kernel goes through the same filter."""
    source = tmp_path / "own.c"
    source.write_text(
        "#include <unistd.h>\n#include <sys/syscall.h>\n#include <errno.h>\n"
        "int probe(void) { return syscall(SYS_socket, 2, 1, 0) < 0 ? errno : 0; }\n"
    )
    made = subprocess.run(["cc", "-shared", "-fPIC", "-o", bench.scratch / "own.so", source], check=False)
    if made.returncode:
        pytest.skip("there is no compiler here")
    ran = bench.probe("return ctypes.CDLL('./own.so').probe()")
    assert ran.steps[0].rows == 1  # EPERM


def test_with_sockets_in_the_filter_there_would_be_one() -> None:
    """A fault on purpose: the refusal above comes from the filter, and from nothing else."""
    program = (
        "from remit.sandbox import seccomp; from remit.core import syscalls; import os, socket;"
        "syscalls._NUMBERS['socket'] = (41, 198);"
        "seccomp.PROGRAM = (*seccomp.PROGRAM, *{names});"
        "from remit.sandbox.privileges import promise_no_new_privileges as promise; promise();"
        "filters = seccomp.prepare_filters(program=True); filters.birth.install(); filters.order.install();"
        "held = socket.socket(); os.write(1, b'done'); os._exit(0)"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program.format(names=names)],
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": str(ROOT / "src")},
        )
        for names in ("('socket',)", "()")
    ]
    assert said[0].stdout == "done"
    assert "PermissionError" in said[1].stderr
