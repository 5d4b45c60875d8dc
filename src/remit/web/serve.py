"""The parts of `remit serve`: the socket, the services and the application."""

import contextlib
import socket
from collections.abc import Callable, Iterator

from remit.services.services import Services
from remit.web.app import build_app
from remit.web.config.settings import WebSettings
from remit.web.server.run import run_app
from remit.web.server.socket import open_socket, port_of, warnings_for
from remit.workspace.workspace import Workspace

__all__ = ["WebSettings", "open_listener", "open_services", "port_of", "run", "warnings_for"]


@contextlib.contextmanager
def open_listener(settings: WebSettings) -> Iterator[socket.socket]:
    """Open the bound socket before anything else, so that a port in use is refused at once."""
    with open_socket(settings) as listener:
        yield listener


@contextlib.contextmanager
def open_services(workspace: Workspace, settings: WebSettings) -> Iterator[Services]:
    services = Services(workspace, console_url=settings.url)
    try:
        yield services
    finally:
        services.close()


def run(
    services: Services, settings: WebSettings, listener: socket.socket, on_listening: Callable[[], None] = lambda: None
) -> None:
    """Serve until the process receives SIGTERM or SIGINT."""
    run_app(build_app(services, settings), services, settings, listener, on_listening)
