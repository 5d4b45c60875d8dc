"""An effect that connects as the real one does, and then tries what it may not."""

import os
import socket
from typing import Any

from remit.effects.context import EffectContext
from remit.effects.postgres.libpq import PostgresWire
from remit.effects.postgres.session import connect


class Probe:
    def connect(self, work: EffectContext) -> PostgresWire:
        return connect(work)

    def run(self, work: EffectContext) -> dict[str, Any]:
        return {
            "answer": work.connected.one("SELECT 1 + 1")[0],
            "socket": _tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)),
            "unix": _tried(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)),
            "pair": _tried(socket.socketpair),
            "connect": _tried(lambda: _a_copy_of(work).connect(work.inputs["address"])),
            "bind": _tried(lambda: _a_copy_of(work).bind("/nowhere/socket")),
            "file": _tried(lambda: os.open("/etc/passwd", os.O_RDONLY)),
        }

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002
        return None


def _a_copy_of(work: EffectContext) -> socket.socket:
    """The connection's own descriptor: the only socket there is."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=work.connected._connection.socket)  # noqa: SLF001


def _tried(what: Any) -> str:
    try:
        what()
    except OSError as problem:
        return str(problem.errno)
    return "done"


PROBE = Probe()
