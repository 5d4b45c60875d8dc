"""What the desk answers about capability tokens and the catalogue."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from remit.contracts.base import (
    SMALL,
    Contract,
    Count,
    Digest,
    Identifier,
    JsonObject,
    Many,
    ShortText,
    Some,
    Timestamp,
)
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.browser.capabilities import TokenCapability
from remit.contracts.ledger import Payload
from remit.parsing import Bounds


class TokenWish(Contract):
    """A token that an admin wants issued. Without domains it allows no place; without a user, no goal."""

    bounds: ClassVar[Bounds] = SMALL

    sub: Identifier
    caps: Some[TokenCapability]
    constraints: TokenConstraints = TokenConstraints()
    life_seconds: Annotated[int, Field(ge=1, le=31 * 86_400)] = 3_600
    not_before: Timestamp | None = None


class TokenIssued(Contract):
    """A new token. `token` is its text, told once and kept nowhere: whoever has it may act."""

    jti: Identifier
    sub: Identifier
    kid: Identifier
    expires_at: Timestamp
    token: Annotated[str, Field(max_length=16_384)] = Field(repr=False)


class TokenView(Contract):
    """A token that was issued here: what it says, never its text."""

    jti: Identifier
    sub: Identifier
    kid: Identifier
    caps: Many[ShortText]
    constraints: JsonObject
    issued_at: Timestamp
    not_before: Timestamp
    expires_at: Timestamp
    state: Literal["active", "not_yet", "expired", "revoked"]
    revoked_at: Timestamp | None
    revoked_why: ShortText | None
    uses: Count


class SimulationLine(Contract):
    """One simulation of the catalogue, and where it stands for the tenant."""

    simulation_id: Identifier
    version: ShortText
    title: ShortText
    state: ShortText
    impact: ShortText
    risk: ShortText
    access_action: ShortText
    rollback: ShortText | None
    definition_digest: Digest


class CatalogueView(Contract):
    """All simulations of a tenant. `changed` were edited since they were promoted; of `gone` no file is left."""

    tenant_id: Identifier
    catalogue_ref: Identifier
    simulations: Many[SimulationLine]
    changed: Many[Identifier]
    gone: Many[Identifier]


class StateSaid(Contract):
    """What a person said last of a simulation."""

    state: ShortText
    version: ShortText
    definition_digest: Digest
    by: ShortText
    changed_at: Timestamp


class SimulationView(Contract):
    """One simulation, whole. Give its `definition_digest` to promote it: what was read is what is promoted."""

    tenant_id: Identifier
    line: SimulationLine
    said: StateSaid | None
    simulation: Payload
