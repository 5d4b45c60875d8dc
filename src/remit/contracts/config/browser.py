"""The part of `remit.yaml` that is about the browser."""

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
    """What the browser may reach, beyond what each token says, and how it is run."""

    issuer: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="abos-policy-authority", description="Who issues capability tokens: their `iss`."
    )
    audience: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="abos-executor", description="Whom they are for: their `aud`."
    )
    ports: Annotated[tuple[Annotated[int, Field(ge=1, le=65_535)], ...], Field(strict=False, max_length=100)] = Field(
        default=(80, 443), description="Ports that pages may be fetched from."
    )
    hosts: Annotated[dict[Annotated[str, Field(max_length=255)], IpAddress], Field(max_length=1_000)] = Field(
        default_factory=dict, description="Addresses of host names that are looked up here instead of in the DNS."
    )
    private_addresses: Annotated[tuple[IpNetwork, ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="Private addresses, such as 10.1.0.0/16, that names may lead to. None given: none."
    )
    certificates: AbsolutePath | None = Field(
        default=None,
        description="Authorities, in PEM, that servers are believed by; else the system's.",
    )
    executable: AbsolutePath | None = Field(default=None, description="The Chromium to run; else the one in the PATH.")
    user: Name | None = Field(default=None, description="Whom Chromium runs as if Remit is root; else nobody.")
    max_body_bytes: Annotated[int, Field(ge=1_024, le=1 << 30)] = Field(
        default=10 << 20, description="Bytes of a request's body. A larger one is refused: it could not be shown."
    )
    idle_seconds: Annotated[int, Field(ge=1, le=86_400)] = Field(
        default=900, description="Seconds without an action after which the browser, and its sessions, end."
    )
    late_seconds: Annotated[int, Field(ge=0, le=60)] = Field(
        default=5,
        description="Seconds that an action waits for what the page has put off because of it, such as by a timer.",
    )
    page_seconds: Annotated[int, Field(ge=1, le=300)] = Field(
        default=10, description="Seconds after which a page that does not answer is ended."
    )
    page_bytes: Annotated[int, Field(ge=64 << 20, le=1 << 40)] = Field(
        default=2 << 30, description="Bytes of memory of one process of pages. One that has more is ended."
    )
    picture_days: Annotated[int, Field(ge=1, le=3_650)] = Field(
        default=30, description="Days that pictures of pages are kept in the state directory."
    )
    picture_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 50)] = Field(
        default=1 << 30,
        description="Bytes of pictures that are kept: beyond that the oldest go, but none of the last hour.",
    )
    metrics_port: Annotated[int, Field(ge=1, le=65_535)] | None = Field(
        default=None, description="A port on loopback where the browser host serves /metrics; else on its socket only."
    )
