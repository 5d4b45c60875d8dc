"""Answers of the services about capability tokens and the catalogue."""

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
    """A capability token that an admin wants issued. Without domains it allows no host. Without a user, no goal."""

    bounds: ClassVar[Bounds] = SMALL

    sub: Identifier
    caps: Some[TokenCapability]
    constraints: TokenConstraints = TokenConstraints()
    life_seconds: Annotated[int, Field(ge=1, le=31 * 86_400)] = 3_600
    not_before: Timestamp | None = None


class TokenIssued(Contract):
    """A new capability token. `token` is its text, returned once and not stored. Any holder of the text can use it."""

    jti: Identifier
    sub: Identifier
    kid: Identifier
    expires_at: Timestamp
    token: Annotated[str, Field(max_length=16_384)] = Field(repr=False)


class TokenView(Contract):
    """A capability token of this workspace: its claims and state, without its text."""

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


class SimulationStepLine(Contract):
    """A step of a composite simulation, with the digests and states of its simulation and of that one's rollback."""

    step: Identifier
    simulation_id: Identifier
    definition_digest: Digest
    state: ShortText
    rollback: Identifier | None
    rollback_digest: Digest | None
    rollback_state: ShortText | None


class SimulationLine(Contract):
    """One simulation of the catalogue, and its state for the tenant.

    `steps` are those of a composite simulation, in the order in which they run. Its `definition_digest` covers them.
    """

    simulation_id: Identifier
    version: ShortText
    title: ShortText
    state: ShortText
    impact: ShortText
    risk: ShortText
    access_action: ShortText
    rollback: ShortText | None
    definition_digest: Digest
    steps: Many[SimulationStepLine] = ()


class CatalogueView(Contract):
    """All simulations of a tenant. `changed` lists those edited since their promotion, `gone` those without a file."""

    tenant_id: Identifier
    catalogue_ref: Identifier
    simulations: Many[SimulationLine]
    changed: Many[Identifier]
    gone: Many[Identifier]


class StateSaid(Contract):
    """The last decision of a person about a simulation."""

    state: ShortText
    version: ShortText
    definition_digest: Digest
    by: ShortText
    changed_at: Timestamp


class SimulationView(Contract):
    """One simulation with its whole definition. To promote exactly this definition, give its `definition_digest`."""

    tenant_id: Identifier
    line: SimulationLine
    said: StateSaid | None
    simulation: Payload
