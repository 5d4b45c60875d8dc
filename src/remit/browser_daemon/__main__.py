"""The process of the browser host: `python -m remit.browser_daemon WORKSPACE DESCRIPTOR`.

It writes to the descriptor, once, that it is ready, or why not. A workspace has one host. A second one finds the lock
taken and ends.
"""

import contextlib
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from remit.browser_daemon.framing import error_to_frame
from remit.browser_daemon.server import HostServer, listen_on
from remit.browser_daemon.socket_path import DaemonFolder
from remit.core.errors import EnvironmentFailureError, Reason, as_remit_error
from remit.observability.logs import configure_logging
from remit.workspace.workspace import Workspace

LOCK_WAIT_SECONDS: Final = 25.0
PAUSE_SECONDS: Final = 0.02


def main(root: str, descriptor: int) -> int:
    configure_logging(sys.stderr, logging.INFO)
    with contextlib.ExitStack() as stack:
        try:
            workspace = stack.enter_context(Workspace.open(Path(root)))
            folder = DaemonFolder.of(workspace.state)
            folder.make()
            lock = _lock_unless_served(folder)
            if lock is None:
                _report(descriptor, {"ready": True})
                return 0
            stack.callback(os.close, lock)
            config = workspace.config.browser
            workspace.browser_service.recover()
            listeners = [folder.listen()]
            if config.metrics_port is not None:
                listeners.append(listen_on(config.metrics_port))
            for listener in listeners:
                stack.callback(listener.close)
        except Exception as problem:  # noqa: BLE001 - reported to the process that started this
            _report(descriptor, error_to_frame(as_remit_error(problem)))
            return 1
        server = stack.enter_context(contextlib.closing(HostServer(workspace.browser_service, config.idle_seconds)))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.stop())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        _report(descriptor, {"ready": True})
        server.serve(listeners)
        folder.clear()
        workspace.browser_service.close()
    return 0


def _lock_unless_served(folder: DaemonFolder) -> int | None:
    """Acquire the lock, or return None when another host answers. Waits for a host that is starting or ending."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        lock = folder.lock()
        if lock is not None:
            return lock
        connection = folder.connect()
        if connection is not None:
            connection.close()
            return None
        if time.monotonic() > deadline:
            raise EnvironmentFailureError(
                Reason.IN_PROGRESS,
                "another browser host has the lock and does not answer",
                where=str(folder.folder),
                next_step="End that process. Its log is in the folder of its socket.",
            )
        time.sleep(PAUSE_SECONDS)


def _report(descriptor: int, message: dict[str, Any]) -> None:
    """Write a message to the process that started the host. It may have ended by now, and the host goes on."""
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(message).encode() + b"\n")
    with contextlib.suppress(OSError):
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
