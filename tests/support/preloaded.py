"""Python that has loaded Remit already: each program is a process of its own, forked instead of started.

`python()` is to be called like Python, with `-c`, `-m` or a file; `remit()` like `remit`. See README.md beside this
file: what is real, and when a test needs a fresh one.
"""

import array
import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import io
import marshal
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import types
from collections import Counter
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

import remit as package
from remit.contracts.base import Contract
from remit.core import faultpoints
from remit.core.errors import SANDBOX_OPTION, EnvironmentFailureError
from remit.masking import mask_diff, mask_json, mask_text
from remit.sandbox import zygote_pool as pool
from remit.sandbox.support import require_confinement_here
from remit.store.connection import Dialect
from remit.store.schema_check import shipped_shape
from tests.support import preloaded_zygotes

_ROOT: Final = Path(__file__).resolve().parents[2]
_READY: Final = b"ready\n"
_LENGTH: Final = struct.Struct("!I")
_MOST_DESCRIPTORS: Final = 64
_OUT_OF_THE_WAY: Final = 500
_PATIENCE: Final = 10
_MASKED: Final = (
    "ada@example.org 4111 1111 1111 1111 123-45-6789 password='x y' Authorization: Bearer z https://u:p@h/\n"
)
"""Something of every kind."""

# What decides how Python starts, or needs standard streams that are not there, is left to the real one. It imports only
# what is built in: each other module would take longer than all that it does.
_PROGRAM: Final = """#!{python} -IS
import _signal, _socket, marshal, os, sys
words = [*{words!r}, *sys.argv[1:]]
try:
    if any(name in os.environ for name in ("PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL")):
        raise OSError
    for stream in range(3):
        os.fstat(stream)
    descriptors = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            os.fstat(number)
            descriptors.append(number)
        except OSError:
            pass  # the one that listed them
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect({address!r})
    whole = marshal.dumps((words, dict(os.environ), os.getcwd(), descriptors))
    numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    server.sendmsg([len(whole).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
    server.sendall(whole)
except (OSError, UnicodeError):
    os.execv({python!r}, [{python!r}, *words])
told = server.recv(4, _socket.MSG_WAITALL)
if len(told) != 4:
    sys.exit("the process that programs are forked from is gone")
status = int.from_bytes(told, "big")
if os.WIFSIGNALED(status):
    number = os.WTERMSIG(status)
    if number != _signal.SIGKILL:
        _signal.signal(number, _signal.SIG_DFL)
    os.kill(os.getpid(), number)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def is_fresh() -> bool:
    """Whether every process is to be started, and none shared: much slower, and with the same outcome."""
    return os.environ.get("REMIT_TEST_FRESH") == "1"


def python() -> str:
    return sys.executable if is_fresh() else str(_programs() / "python")


def remit() -> str:
    return str(Path(sys.executable).with_name("remit") if is_fresh() else _programs() / "commands" / "remit")


@functools.cache
def _programs() -> Path:
    """The folder with both, and a server behind them that ends with this process."""
    # Not a long TMPDIR: a Unix socket's path may have at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="remit-preloaded-", dir="/tmp"))
    folder.chmod(0o755)
    address = str(folder / "socket")
    (folder / "commands").mkdir()  # alone: whoever has it on the search path means the real Python by `python`
    for name, words in (("python", []), ("commands/remit", ["-m", "remit"])):
        program = folder / name
        program.write_text(_PROGRAM.format(python=sys.executable, words=words, address=address))
        program.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.preloaded", address],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server.stdout:
        assert server.stdout.readline() == _READY
    assert server.wait() == 0
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.stdin.close)  # until then it is referred to, and the server lives
    return folder


def main(address: str) -> NoReturn:
    """Serve until whoever started this is gone."""
    _load_everything()
    zygotes = f"{address}-zygotes"
    pool.AHEAD = 1  # type: ignore[misc]  # a program does one thing or two, and each process that waits costs
    pool.start_program = preloaded_zygotes.starter(zygotes, pool.start_program)
    if os.fork():  # tests count the children of their process, and this is to be none
        os._exit(0)
    preloaded_zygotes.run(zygotes, SANDBOX_OPTION)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        sys.stdout.buffer.write(_READY)
        sys.stdout.flush()
        _Serving(listening).go_on()


def _load_everything() -> None:
    for module in pkgutil.walk_packages(package.__path__, "remit."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    waiting: list[type[Any]] = [Contract]
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        with contextlib.suppress(Exception):  # one that cannot be completed says so where it is used
            model.model_rebuild()
    _do_what_is_done_once()
    gc.collect()
    gc.freeze()  # or each process would copy what its collector looks at


def _do_what_is_done_once() -> None:
    """What a process does at its first use and remembers: patterns, the tables' shape, whether the kernel confines."""
    for mask in (mask_text, mask_diff):
        mask(_MASKED)
    mask_json({"text": _MASKED})
    for dialect in get_args(Dialect):
        shipped_shape(dialect)
    with contextlib.suppress(EnvironmentFailureError):  # then each says so where it needs it
        require_confinement_here()
    Counter("")  # looks through all that is a mapping


class _Serving:
    """One fork for each caller, and no more: of a process with so much in it, it is most of what a program costs."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._poll = select.poll()
        self._poll.register(listening, select.POLLIN)
        self._poll.register(0, select.POLLIN)
        self._programs: dict[int, tuple[int, socket.socket]] = {}
        """By the descriptor that tells of the end of one: its id, and who waits for it."""
        self._callers: dict[int, int] = {}

    def go_on(self) -> NoReturn:
        while True:
            for ready, _ in self._poll.poll():
                if ready == 0:
                    self._end()
                elif ready == self._listening.fileno():
                    caller, _ = self._listening.accept()
                    with contextlib.suppress(OSError, struct.error, ValueError, EOFError):
                        self._begin(caller)
                elif ready in self._programs:
                    self._tell(ready)
                elif ready in self._callers:
                    self._give_up(ready)

    def _begin(self, caller: socket.socket) -> None:
        # One that was stopped in the middle of asking must not keep all others waiting.
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _PATIENCE, 0))
        head, rights, _, _ = caller.recvmsg(_LENGTH.size, socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS), socket.MSG_WAITALL)
        received = [number for _, _, data in rights for number in array.array("i", data)]
        try:
            whole = caller.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL)
            words, environ, folder, descriptors = marshal.loads(whole)  # noqa: S302 - of the program above
            program = os.fork()
            if program == 0:
                try:
                    # No object may close a number that is the program's by then.
                    for held in (self._listening, caller, *(waiting for _, waiting in self._programs.values())):
                        held.detach()
                    _become(words, environ, folder, descriptors, received)
                finally:
                    os._exit(1)
        finally:
            for number in received:
                os.close(number)
        ended = os.pidfd_open(program)
        self._programs[ended] = (program, caller)
        self._callers[caller.fileno()] = ended
        self._poll.register(ended, select.POLLIN)
        self._poll.register(caller, 0)  # it says no more: that it is gone is told in any case

    def _tell(self, ended: int) -> None:
        program, caller = self._programs.pop(ended)
        status = os.waitpid(program, 0)[1]
        self._poll.unregister(ended)
        os.close(ended)
        if self._callers.pop(caller.fileno(), None) is not None:
            self._poll.unregister(caller)
        with caller, contextlib.suppress(OSError):
            caller.sendall(_LENGTH.pack(status))

    def _give_up(self, caller: int) -> None:
        """One that was given up on must not go on behind the next test's back."""
        self._poll.unregister(caller)
        os.kill(self._programs[self._callers.pop(caller)][0], signal.SIGKILL)

    def _end(self) -> NoReturn:
        for program, _ in self._programs.values():
            os.kill(program, signal.SIGKILL)
        os._exit(0)


def _become(
    words: list[str], environ: dict[str, str], folder: str, descriptors: list[int], received: list[int]
) -> NoReturn:
    """As Python begins: where it was called, with the caller's descriptors, variables and words."""
    moved = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for number in received]
    os.closerange(0, _OUT_OF_THE_WAY)
    for number, away in zip(descriptors, moved, strict=True):
        os.dup2(away, number, inheritable=True)
        os.close(away)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    if setting := os.environ.get("REMIT_FAULT"):
        faultpoints.arm(setting)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        raw = io.FileIO(number, mode, closefd=False)
        raw.name = f"<{name}>"  # as Python's own streams are
        buffered: Any = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
        errors = "backslashreplace" if name == "stderr" else "strict"
        lines = name == "stderr" or os.isatty(number)
        stream = io.TextIOWrapper(buffered, encoding="utf-8", errors=errors, line_buffering=lines)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    _run(words)


def _run(words: list[str]) -> NoReturn:
    code: Any = 0
    try:
        how, what, *arguments = words if words[0] in {"-c", "-m"} else ["", *words]
        sys.argv = ["-c" if how == "-c" else what, *arguments]
        sys.path[0] = {"-c": "", "-m": os.getcwd()}.get(how, os.path.dirname(what))
        if not how:
            runpy.run_path(what, run_name="__main__")
        elif how == "-c":
            sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), sys.modules["__main__"].__dict__)  # noqa: S102 - as `python -c` does
        else:
            runpy.run_module(what, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
        if not (code is None or isinstance(code, int)):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException:  # noqa: BLE001 - as Python does
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()  # noqa: SLF001 - leaving in the usual way would take everything apart first
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1])
