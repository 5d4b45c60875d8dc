"""HTTP/1.1 of uvicorn with less patience: it would wait for a request's headers for ever, and for any number of them.

A connection whose request does not come in time is told so (408) and closed; one too many is closed at once.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from remit.contracts.web_config import WebLimits


class PatientProtocol(H11Protocol):
    """Limit: a TLS handshake that is never finished is asyncio's to end, after a minute."""

    header_seconds: float = 10.0
    most_connections: int = 500
    _timer: asyncio.TimerHandle | None = None
    _is_one_too_many = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.most_connections:
            self._is_one_too_many = True
            transport.abort()  # an answer to each of them would cost more than the connection
            return
        super().connection_made(transport)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if not self._is_one_too_many:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_one_too_many:
            super().data_received(data)
            self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """A request is under way: its body has a time limit of its own. Else some of the next one may be here."""
        if self._is_answering():
            self._stop_waiting()
        elif self.conn.trailing_data[0] and self._timer is None:
            self._await_request()

    def _is_answering(self) -> bool:
        cycle = getattr(self, "cycle", None)
        return cycle is not None and not cycle.response_complete

    def _await_request(self) -> None:
        self._timer = self.loop.call_later(self.header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._is_answering() or self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE:
            headers = [("connection", "close"), ("content-length", "0")]
            self.transport.write(self.conn.send(h11.Response(status_code=408, headers=headers)) or b"")
            self.transport.write(self.conn.send(h11.EndOfMessage()) or b"")
        self.transport.close()


def patient_protocol(limits: WebLimits) -> type[PatientProtocol]:
    """As patient as the settings say."""

    class AsPatientAsSaid(PatientProtocol):
        header_seconds = float(limits.header_seconds)
        most_connections = limits.connections

    return AsPatientAsSaid
