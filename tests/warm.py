"""Python that has loaded Remit already: each program is a process of its own, forked instead of started.

Loading is most of what a short program costs, and the tests start thousands. `python()` is to be called like Python,
with `-c`, `-m` or a file; `remit()` like `remit`. What a test says about starting, loading, limits or a terminal needs
the real ones.
"""

import array
import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import io
import json
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
from pathlib import Path
from typing import Any, Final, NoReturn

import remit as package
from remit import faultpoints
from remit.contracts.base import Contract
from remit.errors import SANDBOX_OPTION
from remit.sandbox import pool
from tests import warm_zygotes

_ROOT: Final = Path(__file__).resolve().parent.parent
_READY: Final = b"ready\n"
_LENGTH: Final = struct.Struct("!I")
_STATUS: Final = struct.Struct("!i")
_MOST_DESCRIPTORS: Final = 64
_OUT_OF_THE_WAY: Final = 500

# What decides how Python starts, or needs standard streams that are not there, is left to the real one.
_PROGRAM: Final = """#!{python} -IS
import json, os, signal, socket, struct, sys
words = [*{words!r}, *sys.argv[1:]]
try:
    if any(name in os.environ for name in ("PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL")):
        raise OSError
    for stream in range(3):
        os.fstat(stream)
    with os.scandir("/proc/self/fd") as listed:
        numbers = [int(entry.name) for entry in listed]
    descriptors = []
    for number in numbers:
        try:
            os.fstat(number)
            descriptors.append(number)
        except OSError:
            pass  # the one that listed them
    server = socket.socket(socket.AF_UNIX)
    server.connect({address!r})
    asked = {{"words": words, "environ": dict(os.environ), "folder": os.getcwd(), "descriptors": descriptors}}
    whole = json.dumps(asked).encode("utf-8")
    socket.send_fds(server, [struct.pack("!I", len(whole))], descriptors)
    server.sendall(whole)
except (OSError, UnicodeError):
    os.execv({python!r}, [{python!r}, *words])
(status,) = struct.unpack("!i", server.recv(4, socket.MSG_WAITALL))
if os.WIFSIGNALED(status):
    number = os.WTERMSIG(status)
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def python() -> str:
    return str(_programs() / "python")


def remit() -> str:
    return str(_programs() / "commands" / "remit")


@functools.cache
def _programs() -> Path:
    """The folder with both, and a server behind them that ends with this process."""
    # Not a long TMPDIR: a Unix socket's path may have at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="remit-warm-", dir="/tmp"))
    folder.chmod(0o755)
    address = str(folder / "socket")
    (folder / "commands").mkdir()  # alone: whoever has it on the search path means the real Python by `python`
    for name, words in (("python", []), ("commands/remit", ["-m", "remit"])):
        program = folder / name
        program.write_text(_PROGRAM.format(python=sys.executable, words=words, address=address))
        program.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm", address], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
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
    pool.start_program = warm_zygotes.starter(zygotes, pool.start_program)
    if os.fork():  # tests count the children of their process, and this is to be none
        os._exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how one that serves has ended
    warm_zygotes.run(zygotes, SANDBOX_OPTION)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        sys.stdout.buffer.write(_READY)
        sys.stdout.flush()
        while True:
            ready, _, _ = select.select([listening.fileno(), 0], [], [])
            if 0 in ready:
                os._exit(0)
            caller, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _serve(caller)
            caller.close()


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
    gc.collect()
    gc.freeze()  # or each process would copy what its collector looks at


def _serve(caller: socket.socket) -> NoReturn:
    try:
        head, rights, _, _ = caller.recvmsg(_LENGTH.size, socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS), socket.MSG_WAITALL)
        received = [number for _, _, data in rights for number in array.array("i", data)]
        asked = json.loads(caller.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL))
        program = os.fork()
        if program == 0:
            caller.close()
            _become(asked, received)
        for number in received:
            os.close(number)
        ended = os.pidfd_open(program)
        # One that was given up on must not go on behind the next test's back.
        if ended not in select.select([ended, caller.fileno()], [], [])[0]:
            os.kill(program, signal.SIGKILL)
        status = os.waitpid(program, 0)[1]
        with contextlib.suppress(OSError):
            caller.sendall(_STATUS.pack(status))
    finally:
        os._exit(0)


def _become(asked: dict[str, Any], received: list[int]) -> NoReturn:
    """As Python begins: where it was called, with the caller's descriptors, variables and words."""
    moved = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for number in received]
    os.closerange(0, _OUT_OF_THE_WAY)
    for number, away in zip(asked["descriptors"], moved, strict=True):
        os.dup2(away, number, inheritable=True)
        os.close(away)
    os.environ.clear()
    os.environ.update(asked["environ"])
    os.chdir(asked["folder"])
    words = asked["words"]
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
