"""The part of `remit.yaml` that is about the web server: where it listens, whom it lets in, how much it takes.

It binds to loopback unless told otherwise; what is not named here is not let in.
"""

from typing import Annotated

from pydantic import Field

from remit.contracts.base import AbsolutePath, Contract
from remit.contracts.config.browser import IpAddress
from remit.contracts.config.oidc import Oidc

DEFAULT_PORT = 7341
HostName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9.:\[\]-]+$")]
"""A name or an address, with a port where it is not the scheme's own."""


class Tls(Contract):
    """The server's certificate. Both files are read as the server starts."""

    certificate: AbsolutePath = Field(description="The certificate and its chain, in PEM.")
    key: AbsolutePath = Field(description="Its private key, in PEM, which nobody else may read.")


class WebLimits(Contract):
    """How much the server takes from one caller, and from all of them."""

    body_bytes: Annotated[int, Field(ge=1_024, le=64 << 20)] = Field(
        default=8 << 20, description="Bytes of a request's body, and of a message to `remit mcp` on standard input."
    )
    body_seconds: Annotated[int, Field(ge=1, le=600)] = Field(
        default=20, description="Seconds in which a request's body must have come."
    )
    header_seconds: Annotated[int, Field(ge=1, le=600)] = Field(
        default=10, description="Seconds in which a request's headers must have come."
    )
    connections: Annotated[int, Field(ge=8, le=10_000)] = Field(default=500, description="Connections at once.")
    listeners: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=300, description="Connections that listen to events at once."
    )
    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=6_000, description="Requests of one credential, or of one address that shows none."
    )
    logins_per_minute: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=10, description="Login codes and credentials that are not good, of one address."
    )


class McpSettings(Contract):
    """The MCP server."""

    elicitation: bool = Field(
        default=False,
        description="Whether an MCP client may be asked for what a goal lacks. Its answer is never an approval.",
    )


class MetricsAccess(Contract):
    """Whoever has logged in reads /metrics. A scraper cannot log in: it has a secret, or comes from this machine."""

    secret_file: AbsolutePath | None = Field(
        default=None,
        description="A file with a secret of at least 32 characters, for a scraper that sends it as its bearer token.",
    )
    open_on_loopback: bool = Field(
        default=False,
        description="Whether anybody on this machine reads them; not where `public_url` or `tls` is set.",
    )


class Web(Contract):
    """The web server, `remit serve`."""

    host: HostName = Field(
        default="127.0.0.1", description="The address to listen on. Beyond loopback it needs `tls` or `insecure_http`."
    )
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=DEFAULT_PORT, description="The port to listen on; 0: any that is free."
    )
    public_url: Annotated[str, Field(max_length=500, pattern=r"^https?://[A-Za-z0-9.:\[\]-]+$")] | None = Field(
        default=None, description="How others reach it, such as https://remit.example; else where it listens."
    )
    tls: Tls | None = Field(default=None, description="The certificate to serve with. None given: plain HTTP.")
    insecure_http: bool = Field(
        default=False, description="Whether to listen beyond loopback without TLS, such as behind a proxy that has it."
    )
    allowed_hosts: Annotated[tuple[HostName, ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="Host names that requests may ask for, beside loopback and `public_url`."
    )
    session_hours: Annotated[int, Field(ge=1, le=720)] = Field(
        default=12, description="Hours after which a person has to log in again."
    )
    idle_minutes: Annotated[int, Field(ge=1, le=43_200)] = Field(
        default=120, description="Minutes without a request after which a person has to log in again."
    )
    trusted_proxies: Annotated[tuple[IpAddress, ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="Addresses of proxies whose X-Forwarded-For tells whom a request comes from."
    )
    oidc: Oidc | None = Field(
        default=None, description="An identity provider that people may log in with. None given: by links alone."
    )
    metrics: MetricsAccess = Field(default=MetricsAccess(), description="Who reads /metrics, beside people.")
    limits: WebLimits = Field(default=WebLimits(), description="How much the server takes.")
    mcp: McpSettings = Field(default=McpSettings(), description="The MCP server.")
