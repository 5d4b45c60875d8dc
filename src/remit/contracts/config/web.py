"""The `web` settings of `remit.yaml`: the address of the web server, who can log in, and its limits.

The server listens on loopback by default. It refuses every host name and proxy that is not listed here.
"""

from typing import Annotated

from pydantic import Field

from remit.contracts.base import AbsolutePath, Contract
from remit.contracts.config.browser import IpAddress
from remit.contracts.config.oidc import Oidc

DEFAULT_PORT = 7341
HostName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9.:\[\]-]+$")]
"""A name or an address, with a port unless it is the default port of the scheme."""


class Tls(Contract):
    """The server's certificate. Both files are read when the server starts."""

    certificate: AbsolutePath = Field(description="A PEM file with the certificate and its chain.")
    key: AbsolutePath = Field(description="A PEM file with the private key. No other account may have access to it.")


class WebLimits(Contract):
    """Limits for one caller, and for all callers together."""

    body_bytes: Annotated[int, Field(ge=1_024, le=64 << 20)] = Field(
        default=8 << 20,
        description="Largest body of a request, and largest message to `remit mcp` on standard input, in bytes.",
    )
    body_seconds: Annotated[int, Field(ge=1, le=600)] = Field(
        default=20, description="Seconds in which the whole body of a request must arrive."
    )
    header_seconds: Annotated[int, Field(ge=1, le=600)] = Field(
        default=10, description="Seconds in which the headers of a request must arrive."
    )
    connections: Annotated[int, Field(ge=8, le=10_000)] = Field(
        default=500, description="Connections that may be open at the same time."
    )
    listeners: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=300, description="Event streams that may be open at the same time."
    )
    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=6_000, description="Requests a minute of one credential, or of one address without a credential."
    )
    logins_per_minute: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=10, description="Wrong login codes and credentials a minute of one address."
    )


class McpSettings(Contract):
    """The MCP server."""

    elicitation: bool = Field(
        default=False,
        description="Whether the server may ask an MCP client for missing details of a goal. This approves nothing.",
    )


class MetricsAccess(Contract):
    """Who reads /metrics besides people. A scraper cannot log in, so it sends a secret or runs on this machine."""

    secret_file: AbsolutePath | None = Field(
        default=None,
        description="A file with a secret of at least 32 characters, for a scraper that sends it as its bearer token.",
    )
    open_on_loopback: bool = Field(
        default=False,
        description="Whether every process on this machine may read /metrics. It has no effect if `public_url` or "
        "`tls` is set.",
    )


class Web(Contract):
    """The web server, `remit serve`."""

    host: HostName = Field(
        default="127.0.0.1",
        description="The address to listen on. An address other than loopback needs `tls` or `insecure_http`.",
    )
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=DEFAULT_PORT, description="The port to listen on. 0 means any free port."
    )
    public_url: Annotated[str, Field(max_length=500, pattern=r"^https?://[A-Za-z0-9.:\[\]-]+$")] | None = Field(
        default=None,
        description="The address of the server for people and agents, such as https://remit.example. Default: the "
        "address to listen on.",
    )
    tls: Tls | None = Field(
        default=None, description="The certificate of the server. Without it the server uses plain HTTP."
    )
    insecure_http: bool = Field(
        default=False,
        description="Whether to listen without TLS on an address other than loopback, such as behind a proxy with TLS.",
    )
    allowed_hosts: Annotated[tuple[HostName, ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="More host names that a request may name, in addition to loopback and `public_url`."
    )
    session_hours: Annotated[int, Field(ge=1, le=720)] = Field(
        default=12, description="Hours after which a person must log in again."
    )
    idle_minutes: Annotated[int, Field(ge=1, le=43_200)] = Field(
        default=120, description="Minutes without a request after which a person must log in again."
    )
    trusted_proxies: Annotated[tuple[IpAddress, ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="Addresses of proxies. Their `X-Forwarded-For` gives the address of the client."
    )
    oidc: Oidc | None = Field(
        default=None,
        description="An identity provider with which people can log in. Without it they log in with links only.",
    )
    metrics: MetricsAccess = Field(default=MetricsAccess(), description="Who reads /metrics besides logged-in people.")
    limits: WebLimits = Field(default=WebLimits(), description="Limits for one caller, and for all callers together.")
    mcp: McpSettings = Field(default=McpSettings(), description="The MCP server.")
