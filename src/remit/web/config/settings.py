"""The settings of one server: `web:` of remit.yaml, with the overrides of the command line."""

from dataclasses import dataclass
from typing import Final

from remit.contracts.config.web import Web

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]", "::1")
ANYWHERE: Final = ("0.0.0.0", "::", "[::]")  # noqa: S104 - compared only; nothing binds to them here


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The settings of one server. It listens at `host` and `port`; `config` has the rest."""

    config: Web
    host: str
    port: int

    @classmethod
    def of(cls, config: Web, *, host: str | None = None, port: int | None = None) -> "WebSettings":
        return cls(config, config.host if host is None else host, config.port if port is None else port)

    def listening_at(self, port: int) -> "WebSettings":
        """Return a copy with the port that the system assigned."""
        return WebSettings(self.config, self.host, port)

    @property
    def scheme(self) -> str:
        return "https" if self.config.tls is not None else "http"

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK

    @property
    def url(self) -> str:
        """The address at which people and agents reach the server, without a slash at the end."""
        if self.config.public_url is not None:
            return self.config.public_url
        host = "localhost" if self.host in ANYWHERE else self.host
        host = f"[{host}]" if ":" in host and not host.startswith("[") else host
        default = {"https": 443, "http": 80}[self.scheme]
        return f"{self.scheme}://{host}" + ("" if self.port == default else f":{self.port}")
