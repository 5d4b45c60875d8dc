"""A real uvicorn on a loopback port, in a thread of the tests."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

PATH = "/mcp"


@contextlib.contextmanager
def serving(endpoint: Any, running: Callable[[], AbstractAsyncContextManager[None]]) -> Iterator[str]:
    """Serve `endpoint`, an ASGI application without paths, while the block runs. Yield its address."""
    site = Starlette(routes=[Route(PATH, endpoint=endpoint)], lifespan=lambda _: running())
    with serving_site(lambda _: site) as port:
        yield f"http://127.0.0.1:{port}{PATH}"


@contextlib.contextmanager
def serving_site(built: Callable[[int], Any]) -> Iterator[int]:
    """Serve the application that `built` makes. Yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Inherited by each connection; asyncio does it only for a socket that was made with the protocol's number.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port: int = listener.getsockname()[1]
        config = uvicorn.Config(built(port), log_config=None, access_log=False, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join()
