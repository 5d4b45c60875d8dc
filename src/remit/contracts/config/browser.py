"""The `browser` settings of `remit.yaml`."""

from ipaddress import ip_address, ip_network
from typing import Annotated

from pydantic import AfterValidator, Field

from remit.contracts.base import AbsolutePath, Contract, Name


def _require_address(text: str) -> str:
    return str(ip_address(text))


def _require_network(text: str) -> str:
    return str(ip_network(text))


IpAddress = Annotated[str, Field(max_length=45), AfterValidator(_require_address)]
IpNetwork = Annotated[str, Field(max_length=49), AfterValidator(_require_network)]


class Browser(Contract):
    """How the browser runs, and which addresses it may reach. A token limits its agent further."""

    issuer: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="abos-policy-authority", description="The issuer of capability tokens, which their `iss` must name."
    )
    audience: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="abos-executor", description="The audience of capability tokens, which their `aud` must name."
    )
    ports: Annotated[tuple[Annotated[int, Field(ge=1, le=65_535)], ...], Field(strict=False, max_length=100)] = Field(
        default=(80, 443), description="Ports that the browser may connect to."
    )
    hosts: Annotated[dict[Annotated[str, Field(max_length=255)], IpAddress], Field(max_length=1_000)] = Field(
        default_factory=dict, description="Addresses of host names. The DNS is not asked for a name in this list."
    )
    private_addresses: Annotated[tuple[IpNetwork, ...], Field(strict=False, max_length=100)] = Field(
        default=(),
        description="Private networks, such as 10.1.0.0/16, that the browser may reach. Without this setting it reaches"
        " none.",
    )
    certificates: AbsolutePath | None = Field(
        default=None,
        description="A PEM file with the certificate authorities to trust. Default: the authorities of the system.",
    )
    executable: AbsolutePath | None = Field(
        default=None, description="The Chromium program. Default: the one in the PATH."
    )
    user: Name | None = Field(
        default=None, description="The account that runs Chromium if Remit runs as root. Default: `nobody`."
    )
    max_body_bytes: Annotated[int, Field(ge=1_024, le=1 << 30)] = Field(
        default=10 << 20,
        description="Largest body of a request, in bytes. A larger one is refused, because it cannot be shown.",
    )
    idle_seconds: Annotated[int, Field(ge=1, le=86_400)] = Field(
        default=900, description="Seconds without an action after which the browser and its sessions end."
    )
    late_seconds: Annotated[int, Field(ge=0, le=60)] = Field(
        default=5,
        description="Longest time, in seconds, that an action waits for work that the page delays, such as by a timer.",
    )
    page_seconds: Annotated[int, Field(ge=1, le=300)] = Field(
        default=10, description="Seconds after which a page that does not respond is closed."
    )
    page_bytes: Annotated[int, Field(ge=64 << 20, le=1 << 40)] = Field(
        default=2 << 30, description="Largest memory of one page process, in bytes. A process above it is killed."
    )
    picture_days: Annotated[int, Field(ge=1, le=3_650)] = Field(
        default=30, description="Days that screenshots are kept in the state directory."
    )
    picture_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 50)] = Field(
        default=1 << 30,
        description="Largest size of all screenshots, in bytes. The oldest are deleted, except those of the last hour.",
    )
    metrics_port: Annotated[int, Field(ge=1, le=65_535)] | None = Field(
        default=None,
        description="A port on loopback where the browser process serves /metrics. Default: only its own socket serves"
        " them.",
    )
