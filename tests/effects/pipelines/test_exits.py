"""Whatever a program does to end, or not to end: it is a failure in words, in time, and never a success."""

import os
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from remit.core.errors import Reason
from remit.plans.engines import pipeline as pipeline_engine
from remit.plans.engines.pipeline import clear_scratch
from remit.sandbox.host import SandboxHost
from remit.sandbox.orders import Quotas
from tests.effects.pipelines.pipeline_sandbox import MIB, Bench, make_host
from tests.support.patience import SOON

FAILED, EXHAUSTED = Reason.PIPELINE_FAILED, Reason.RESOURCE_EXHAUSTED
_FRAME: Final = """
def say(message):
    text = json.dumps(message).encode()
    os.write(4, len(text).to_bytes(4, "big") + text)
"""
ENDINGS: Final = {
    "exit": ("sys.exit(0)", "SystemExit: a step must return and must not exit"),
    "exit in words": ("raise SystemExit('all is well')", "SystemExit"),
    "an interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "the end of a generator": ("raise GeneratorExit", "GeneratorExit"),
    "an error of ours": (
        "from remit.core.errors import RefusedError, Reason; raise RefusedError(Reason.EXPIRED, 'the lease')",
        "Refused",
    ),
    "an error without words": (
        "class Odd(Exception):\n    def __str__(self): raise SystemExit\nraise Odd",
        "Odd: the exception has no text",
    ),
    "gone at once": ("os._exit(0)", "ended by itself (0)"),
    "abort": ("os.abort()", "its process was ended by"),
    "no stack left": (
        "sys.setrecursionlimit(10**9)\ndef f(_): return max([1], key=f)\nf(1)",
        "its process was ended by SIGSEGV",
    ),
    "a wild pointer": ("ctypes.string_at(1)", "its process was ended by SIGSEGV"),
    "the channel closed": ("os.close(4)", "failed"),
    "the channel closed and slept": ("os.close(4); time.sleep(20)", "its process"),
    "another channel": ("os.dup2(os.open('x', os.O_CREAT | os.O_RDWR), 4)", "its process"),
    "garbage": ("os.write(4, b'garbage' * 100)", "sent too much"),
    "garbage in a frame": ("os.write(4, b'\\0\\0\\0\\4abcd'); time.sleep(20)", "did not answer as agreed"),
    "a huge frame": ("os.write(4, b'\\x7f\\xff\\xff\\xff')", "sent too much"),
    "frames without end": (_FRAME + "while True: say({'kind': 'progress', 'done': 1, 'total': 1})", "sent too much"),
    "a word that nobody knows": (_FRAME + "say({'kind': 'approve'}); time.sleep(20)", "did not answer as agreed"),
    "a step that there is not": (
        _FRAME + "say({'kind': 'step', 'number': 7, 'phase': 'begun'}); time.sleep(20)",
        "did not answer as agreed",
    ),
    "done, with a step at work": (
        _FRAME + "say({'kind': 'done', 'output': {}}); time.sleep(20)",
        "reported success, but not all of its steps are done",
    ),
    "skipped by itself": (
        _FRAME + "say({'kind': 'step', 'number': 0, 'phase': 'skipped'}); say({'kind': 'done', 'output': {}})\n"
        "time.sleep(20)",
        "reported success, but not all of its steps are done",
    ),
    "a failure in words of ours": (
        _FRAME + "say({'kind': 'failed', 'error': {'type': 'Refused', 'reason': 'revoked', 'what': 'the lease'}})\n"
        "time.sleep(20)",
        "failed: the lease",
    ),
    "a misuse that is none": (
        _FRAME + "say({'kind': 'failed', 'error': {'type': 'Misuse', 'what': 'x'}}); time.sleep(20)",
        "failed: x",
    ),
    "rows that are none": (
        _FRAME + "say({'kind': 'step', 'number': 0, 'phase': 'done', 'rows': 'many'}); time.sleep(20)",
        "",
    ),
}


@pytest.mark.req("PX-22")
@pytest.mark.parametrize("way", ENDINGS)
def test_no_way_to_end_is_a_success(bench: Bench, way: str) -> None:
    body, words = ENDINGS[way]
    began = time.monotonic()
    ran = bench.probe(body, seconds=10.0 if words else 1.0)
    assert time.monotonic() - began < SOON
    if way == "rows that are none":  # it went on until its time was over, and what it had said is not believed
        assert ran.problem is not None
        assert ran.problem.reason is Reason.TIMED_OUT
        assert ran.steps[0].rows is None
        return
    assert ran.problem is not None
    assert ran.problem.reason is (EXHAUSTED if words == "sent too much" else FAILED)
    assert words in ran.problem.what
    if "skipped" not in way:
        assert [one.state for one in ran.steps] == ["failed"]


@pytest.mark.req("PX-25")
@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "time.sleep(60)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass",
        "threading.Thread(target=time.sleep, args=(60,)).start(); threading.Event().wait()",
        "class Stubborn(Exception): pass\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass",
    ],
)
def test_what_takes_too_long_is_ended_in_time(bench: Bench, body: str) -> None:
    began = time.monotonic()
    ran = bench.probe(f"print('begun')\n{body}", seconds=1.0)
    assert time.monotonic() - began < SOON
    assert ran.problem is not None
    assert ran.problem.reason is Reason.TIMED_OUT
    assert ran.problem.what == "the pipeline took longer than 1 seconds"
    assert ran.problem.where == "step probe:run"
    assert ran.log == ("begun",)


@pytest.fixture(scope="module")
def tight_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    quotas = Quotas(memory_bytes=100 * MIB, read_bytes=200 * MIB, write_bytes=20 * MIB, seconds=30.0)
    with make_host(tmp_path_factory.mktemp("tight"), quotas) as made:
        yield made


@pytest.fixture
def tight(tmp_path: Path, tight_host: SandboxHost) -> Bench:
    return Bench(tmp_path / "tight", tight_host)


@pytest.mark.req("FX-12")
@pytest.mark.parametrize(
    "body, words",
    [
        ("held = bytearray(4 << 30)", "bytes of memory"),
        ("sys.setrecursionlimit(10**9)\ndef f(): return f() + 1\nf()", "bytes of memory"),
        ("held = [bytearray(1 << 20) for _ in range(4000)]", "bytes of memory"),
        ("held = []\nwhile True:\n    try: held.append(bytearray(1 << 20))\n    except MemoryError: pass", "memory"),
        (
            "held = mmap.mmap(-1, 1 << 29, flags=mmap.MAP_PRIVATE)\nfor n in range(0, 1 << 29, 4096): held[n] = 1",
            "memory",
        ),
        ("open('big', 'wb').write(bytes(30 << 20))", "wrote more than"),
        ("for n in range(4000):\n    with open(f'small-{n}', 'wb') as file: file.write(bytes(1 << 16))", "wrote more"),
        ("file = open('one', 'wb+')\nwhile True: os.pwrite(file.fileno(), bytes(1 << 20), 0)", "wrote more than"),
        ("while True: os.write(1, bytes(1 << 20))", "wrote more than"),
        (
            "open('a', 'wb').write(bytes(1 << 20))\nwhile True: open('a', 'rb').read()",
            "read more than",
        ),
        (
            "threading.stack_size(64 << 10)\n"  # noqa: ISC004
            "for _ in range(2000): threading.Thread(target=time.sleep, args=(30,)).start()\ntime.sleep(5)",
            "threads at a time",
        ),
    ],
)
def test_what_uses_too_much_is_ended(tight: Bench, body: str, words: str) -> None:
    ran = tight.probe(body, seconds=20.0)
    assert ran.problem is not None
    assert ran.problem.reason is EXHAUSTED, ran.problem
    assert words in ran.problem.what
    assert ran.steps[0].state == "failed"
    assert sum(one.stat().st_size for one in tight.scratch.rglob("*") if one.is_file()) < 60 * MIB


MEMORY_OF_A_THREAD = """
    def hold():
        held = []
        while len(held) < 400:
            held.append(bytearray(b"x" * (1 << 20)))
        open("held", "w").write("400 MiB")
        time.sleep(60)
    threading.Thread(target=hold).start()
    libc.syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)  # the first thread ends, and no other one
"""


@pytest.mark.req("FX-12")
def test_memory_is_counted_after_the_first_thread_has_ended(tight: Bench) -> None:
    """The kernel then says of the process itself that it has none."""
    ran = tight.probe(MEMORY_OF_A_THREAD, seconds=20.0)
    assert ran.problem is not None
    assert (ran.problem.reason, "bytes of memory" in ran.problem.what) == (EXHAUSTED, True), ran.problem
    assert not (tight.scratch / "held").exists()


LOCKS = """
    import sqlite3
    file = open("locked", "wb+")
    for number in range(20_000):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * number)
    with sqlite3.connect("own.db") as database:
        database.execute("CREATE TABLE t (a)")
        print(database.execute("INSERT INTO t VALUES (1), (2)").rowcount)
    open("ready", "w").close()
    while not os.path.exists("seen"):
        time.sleep(0.01)
"""


@pytest.mark.req("FX-12")
def test_locks_on_files_take_no_memory_of_the_kernel(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program works on copies that no other process has: a lock is said to be taken, and none is."""
    found: list[int] = []

    def look() -> bool:
        if not found and (bench.scratch / "ready").exists():
            mine = f":{(bench.scratch / 'locked').stat().st_ino} "
            found.append(sum(mine in line for line in Path("/proc/locks").read_text().splitlines()))
            (bench.scratch / "seen").touch()
        return False

    monkeypatch.setattr(bench, "run", partial(bench.run, is_cancelled=look))
    ran = bench.probe(LOCKS, seconds=60.0)
    assert (ran.problem, ran.log, found) == (None, ("2",), [0])


@pytest.mark.req("FX-12")
def test_files_without_end_and_without_content_are_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_engine, "MAX_FILES", 5_000)
    ran = bench.probe("""
        for number in range(1_000_000):
            os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
    """)
    assert ran.problem is not None
    assert ran.problem.reason is EXHAUSTED
    assert "files were created" in ran.problem.what
    assert 1_000 < sum(1 for _ in os.scandir(bench.scratch)) < 200_000


def test_as_many_threads_as_are_allowed_do_no_harm(tight: Bench) -> None:
    ran = tight.probe("""
        threading.stack_size(64 << 10)
        workers = [threading.Thread(target=time.sleep, args=(0.3,)) for _ in range(100)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
    """)
    assert ran.problem is None


@pytest.mark.req("EI-15")
@pytest.mark.parametrize("daemon", [True, False])
def test_threads_that_go_on_end_with_the_process(bench: Bench, daemon: bool) -> None:  # noqa: FBT001
    ran = bench.probe(f"""
        def go_on():
            with open("ticks", "a", buffering=1) as file:
                while True:
                    file.write("tick\\n")
                    time.sleep(0.001)
        threading.Thread(target=go_on, daemon={daemon}).start()
        time.sleep(0.1)
    """)
    assert ran.problem is None
    size = (bench.scratch / "ticks").stat().st_size
    assert size > 0
    time.sleep(0.3)
    assert (bench.scratch / "ticks").stat().st_size == size


def test_folders_within_folders_without_end_are_cleared_away(bench: Bench) -> None:
    ran = bench.probe("""
        for number in range(1500):
            os.mkdir("d"); open(f"file-{number}", "w").close(); os.chdir("d")
    """)
    assert ran.problem is None
    with pytest.raises((RecursionError, OSError)):
        shutil.rmtree(bench.scratch)
    (bench.scratch / ".0").mkdir()
    (bench.scratch / "link").symlink_to(bench.outside)
    clear_scratch(bench.scratch)
    assert not bench.scratch.exists()
    assert bench.secret.exists()


def test_after_all_of_that_an_honest_program_still_runs(bench: Bench) -> None:
    assert bench.probe("os._exit(3)").problem is not None
    assert bench.probe("return 1").steps[0].rows == 1
