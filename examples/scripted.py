"""A server on this machine that speaks a model's wire format, with fixed answers. It needs no network and no key."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextlib.contextmanager
def serve_model(reply: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[str]:
    """Start a server that answers each request with the result of `reply`, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(reply(request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Print no log: the examples print their own output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def next_call(results: list[dict[str, Any]], plan: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the script's next call: propose a plan, apply it, set the discount. It depends on the results only."""
    match results:
        case []:
            return "propose_plan", {"plan": plan}
        case [{"proposal_id": proposal_id}]:
            return "apply_plan", {"proposal_id": proposal_id}
        case [_, {"state": "APPLIED"}]:
            return "crm-set_discount", {"customer": "acme", "percent": 5}
        case _:
            return None
