"""The sandboxed process of one task.

1. The first filter is installed right after the fork.
2. The process receives its order, opens the folders of that order and confines itself to them.
3. It waits until the host lets it begin.
4. It calls the effect.

All code before the effect is trusted. From the effect on, nothing in this process is trusted: the host treats its
frames as data, and kills it. The process has no keys, and the trusted code opens only the paths of the order.
"""

import _socket  # the module around it costs 1 MB, which every fork pays for
import ctypes
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn, cast

from remit.core.errors import Reason, RefusedError, RemitError, UsageError
from remit.core.syscalls import Limit, number_of, prepared, require
from remit.effects.context import Connecting, Effect, EffectContext, PathHandle
from remit.effects.tasks import rehearsal
from remit.fs import openat as beneath
from remit.sandbox.framing import CHUNK, GO, MAX_ANSWERS, MAX_GIVEN, FrameReader, FramingError, encode_frame
from remit.sandbox.landlock import Landlock, decide_rights
from remit.sandbox.prefault import HotPages
from remit.sandbox.privileges import Privileges
from remit.sandbox.seccomp import LOCK_DESCRIPTOR, Filters

CHANNEL: Final = LOCK_DESCRIPTOR + 1
REHEARSED: Final = "rehearsal"
MAX_TRACE: Final = 500

_PR_SET_PDEATHSIG: Final = 1
_SIGKILL: Final = 9
_ANCILLARY_BYTES: Final = _socket.CMSG_SPACE(4 * MAX_GIVEN)
_PROGRESS_PAUSE: Final = 0.05
_PROGRESS_STEPS: Final = 100
_STRINGS: Final = ("effect", "call", "task_id", "capability_id", "part_name")
_decode: Final = json.JSONDecoder().raw_decode
_EXHAUSTED: Final = encode_frame({"kind": "failed", "error": {"type": "exhausted"}})


class Confinement(NamedTuple):
    """The kernel's limits on a child."""

    landlock: Landlock
    filters: Filters
    privileges: Privileges
    libraries: Mapping[str, int] = MappingProxyType({})
    """The paths that a program may open besides its own folder, with the rights on each."""

    def restrict_to(self, rights: Mapping[int, int], *, restores: bool) -> None:
        """Confine this process, just before the effect. After this, no path outside of these folders can be opened."""
        opened = {os.open(path, os.O_PATH | os.O_CLOEXEC): right for path, right in self.libraries.items()}
        # They stay open: a file below /proc that no process has open becomes another file, without rights.
        self.landlock.restrict(self.landlock.build({**rights, **opened}))
        if restores:
            self.filters.order_to_restore.install()
        else:
            self.privileges.drop_all_others()
            self.filters.order.install()


class ChildTemplate(NamedTuple):
    """The data that the zygote prepared for its children."""

    effects: Mapping[str, Effect]
    zygote: int
    confinement: Confinement | None
    """None for `unsafe-none`: then only the resource limits apply."""
    rehearsal: bytes = b""
    """A test order, encoded like an order of the host."""
    hot_pages: HotPages | None = None
    open_files: Limit | None = None
    """The only limit that the zygote itself does not have."""


_call: Final = prepared(ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_CLOSE_RANGE: Final = number_of("close_range") or 0
_PRCTL: Final = number_of("prctl") or 0


def initialise_child(template: ChildTemplate, channel: int) -> None:
    """Apply the first filter right after the fork. On failure, report the error and exit."""
    try:
        _initialise(template, channel)
    except BaseException as problem:  # noqa: BLE001 - a process that is only partly confined must not continue
        os.write(channel, encode_frame({"kind": "failed", "error": {**describe(problem), "type": "stillborn"}}))
        os._exit(1)


def _initialise(template: ChildTemplate, channel: int) -> None:
    if template.hot_pages is not None:
        template.hot_pages.copy_pages()
    # All that a child inherits was set once, in the zygote: the other limits, no_new_privs, signals, umask.
    if template.open_files is not None:
        template.open_files.set()
    require(_call(_PRCTL, _PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != template.zygote:
        os._exit(1)  # the zygote died before the line above, so no signal would ever end this process
    os.setpgid(0, 0)
    os.dup2(channel, CHANNEL)
    # Standard streams are /dev/null, so that no file of the effect can become one of them.
    require(_call(_CLOSE_RANGE, CHANNEL + 1, 0xFFFFFFFF, 0, 0, 0), "close_range")
    if template.confinement is not None:
        template.confinement.filters.birth.install()


def write_rehearsal() -> bytes:
    return encode_frame(
        {
            **dict.fromkeys(_STRINGS, REHEARSED),
            "call": "run",
            **{name: {} for name in ("inputs", "checkpoint")},
            "places": rehearsal.places(),
            "before": rehearsal.before(),
            "reversible": True,
            "network": False,
            "restores": False,
            "notes": [],
            "given": [],
        }
    )


def rehearse(template: ChildTemplate, host: _socket.socket, channel: "Channel") -> None:
    """Run a test order in the zygote, so that the code is warm. Steps that are irreversible are left out."""
    host.sendall(template.rehearsal + GO)
    order, descriptors = channel.receive_order()
    work, rights = prepare_work(order, descriptors, channel)
    if template.confinement is not None:
        os.close(template.confinement.landlock.build(rights))
    channel.wait_for_go()
    channel.finish({"kind": "done", "output": template.effects[REHEARSED].run(work)})
    host.recv(CHUNK)
    for folder in rights:
        os.close(folder)


def run_order(template: ChildTemplate) -> NoReturn:
    """Receive the order, run it, send the answer, and wait to be killed."""
    channel = Channel()
    try:
        order, descriptors = channel.receive_order()
        call_effect = prepare_effect(template, order, descriptors, channel)
        channel.wait_for_go()
        answer: Mapping[str, Any] = {"kind": "done", "output": call_effect()}
    except MemoryError:
        channel.write(_EXHAUSTED)
    except BaseException as problem:  # noqa: BLE001 - any exception of the effect is reported to the host
        channel.send({"kind": "failed", "error": describe(problem)})
    else:
        channel.finish(answer)
    channel.wait_for_the_end()
    os._exit(0)


class Channel:
    """The child's end of the socket. It is written with write(2), because the filter denies all other calls."""

    def __init__(self, descriptor: int = CHANNEL) -> None:
        self._descriptor = descriptor
        self._reader = FrameReader(MAX_ANSWERS)
        self._last_progress = (0.0, 0)

    def receive_order(self) -> tuple[dict[str, Any], list[int]]:
        end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, self._descriptor)
        first, extras, _, _ = end.recvmsg(CHUNK, _ANCILLARY_BYTES)
        end.detach()
        descriptors = [fd for _, _, raw in extras for fd in memoryview(raw).cast("i")]
        return self.next_message(first), descriptors

    def wait_for_go(self) -> None:
        """Wait for the host, which sends the frame when the intent is durable. Otherwise it kills this process."""
        self._next_frame(b"")

    def send(self, message: Mapping[str, Any]) -> None:
        self.write(encode_frame(message))

    def finish(self, answer: Mapping[str, Any]) -> None:
        try:
            frame = encode_frame(answer)
        except (TypeError, ValueError, FramingError, RecursionError) as problem:
            frame = encode_frame({"kind": "failed", "error": describe(problem)})
        self.write(frame)

    def note(self, what: Mapping[str, Any]) -> None:
        """Send a note, and return when the host has stored it. It is durable if the host stores notes durably."""
        self.send({"kind": "note", "note": what})
        self._next_frame(b"")

    def progress(self, done: int, total: int) -> None:
        """Report progress, at most some hundred times in all, because the host limits the number of frames."""
        now, (when, last) = time.monotonic(), self._last_progress
        if now - when >= _PROGRESS_PAUSE and (done - last) * _PROGRESS_STEPS >= total:
            self._last_progress = (now, done)
            self.send({"kind": "progress", "done": done, "total": total})

    def step(self, message: Mapping[str, Any]) -> None:
        self.send({**message, "kind": "step"})

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        self.send({"kind": "ask", "question": question})
        answer: Mapping[str, Any] = self.next_message(b"")["answer"]
        return answer

    def write(self, frame: bytes) -> None:
        view = memoryview(frame)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def wait_for_the_end(self) -> None:
        """Wait while the host reads the resource usage of this process, until the host kills it."""
        while os.read(self._descriptor, CHUNK):
            pass

    def parse(self, frame: bytes) -> dict[str, Any]:
        message: dict[str, Any] = _decode(frame.decode())[0]
        return message

    def next_message(self, data: bytes) -> dict[str, Any]:
        return self.parse(self._next_frame(data))

    def _next_frame(self, data: bytes) -> bytes:
        while True:
            for frame in self._reader.feed(data):
                return frame
            data = os.read(self._descriptor, CHUNK)
            if not data:
                os._exit(0)  # the host is gone, or needs this child no more


def prepare_effect(
    template: ChildTemplate, order: dict[str, Any], descriptors: list[int], channel: Channel
) -> Callable[[], dict[str, Any] | None]:
    """Open the folders, confine this process, and return a function that calls the effect.

    No code of the effect has run, except `connect` for an order with a network.
    """
    effect = template.effects.get(order["effect"])
    if effect is None:
        raise RefusedError(
            Reason.CAPABILITY_UNSUPPORTED, f"no effect {order['effect']} was registered with this sandbox"
        )
    work, rights = prepare_work(order, descriptors, channel)
    if order["network"]:
        work = work._replace(connected=cast(Connecting, effect).connect(work))
    if template.confinement is not None:
        template.confinement.restrict_to(rights, restores=order["restores"])
    match order["call"]:
        case "run":
            return partial(effect.run, work)
        case "finish" | "undo" as call:
            return partial(effect.settle, work, finish=call == "finish")
    raise UsageError(Reason.MISUSE, "the call of an order must be run, finish or undo")


def prepare_work(
    order: dict[str, Any], descriptors: list[int], channel: Channel
) -> tuple[EffectContext, dict[int, int]]:
    spots, rights = open_folders(order["places"])
    work = EffectContext(
        task_id=order["task_id"],
        capability_id=order["capability_id"],
        inputs=order["inputs"],
        reversible=order["reversible"],
        part_name=order["part_name"],
        spots=spots,
        before=order["before"],
        checkpoint=order["checkpoint"],
        given=dict(zip(order["given"], descriptors, strict=True)),
        notes=tuple(order["notes"]),
        note=channel.note,
        progress=channel.progress,
        ask=channel.ask,
        step=channel.step,
    )
    return work, rights


def open_folders(places: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, PathHandle], dict[int, int]]:
    """Open the folder of each path without following a link, and return the paths and the kernel's rights."""
    folders: dict[tuple[str, ...], int] = {}
    spots, uses = {}, []
    for name, place in places.items():
        base, parents = place["base"], place["parents"]
        key = (base, *parents)
        path = os.path.join(base, *parents, place["name"])
        if key not in folders:
            root = beneath.open_base(base)
            folders[key] = beneath.open_folder(root, parents)
            os.close(root)
        spots[name] = PathHandle(path, folders[key], place["name"])
        uses.append((folders[key], place["use"]))
    return spots, decide_rights(uses)


def describe(problem: BaseException) -> dict[str, str]:
    """Return an error as it is sent to the host. An exception of another kind is a bug, sent with its line."""
    if isinstance(problem, RemitError):
        return {"type": _kind_of(problem), **problem.as_json()}
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}, line {trace.tb_lineno}" if trace else ""
    return {"type": "bug", "what": f"{type(problem).__name__}: {problem}"[:MAX_TRACE], "where": where}


def _kind_of(problem: RemitError) -> str:
    """Return the name of the error's kind in `remit.sandbox.results.KINDS`."""
    if isinstance(problem, RefusedError):
        return "Refused"
    return "Misuse" if isinstance(problem, UsageError) else "EnvironmentFailed"
