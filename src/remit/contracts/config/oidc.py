"""The `web.oidc` settings of `remit.yaml`, for an identity provider (OpenID Connect)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from remit.contracts.base import AbsolutePath, Contract, Identifier

ProviderUrl = Annotated[
    str,
    Field(
        max_length=500,
        pattern=r"^(https://[A-Za-z0-9.-]+(:[0-9]{1,5})?|http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?)(/[A-Za-z0-9._~/-]*)?$",
    ),
]
"""An address with TLS, or an address on this machine."""
ClaimName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_:./-]+$")]
VariableName = Annotated[str, Field(max_length=100, pattern=r"^[A-Z_][A-Z0-9_]{0,99}$")]


class RoleOf(Contract):
    """One row of the role table, from a value of the claim to a role."""

    value: Annotated[str, Field(min_length=1, max_length=500)] = Field(
        description="The value of the claim, or one value in its list."
    )
    role: Literal["viewer", "approver", "operator", "admin"] = Field(
        description="The role that a person with this value has."
    )


class Oidc(Contract):
    """An identity provider with which people can log in."""

    issuer: ProviderUrl = Field(
        description="The provider's `iss`. Its discovery document is fetched from below this address."
    )
    client_id: Annotated[str, Field(min_length=1, max_length=500)] = Field(
        description="The client id that the provider assigned to this server."
    )
    client_secret_variable: VariableName | None = Field(
        default=None, description="The environment variable that holds the client secret."
    )
    client_secret_file: AbsolutePath | None = Field(
        default=None,
        description="Or a file with the client secret. No other account may have access to it. Without a secret, this "
        "server is a public client.",
    )
    scopes: Annotated[
        tuple[Annotated[str, Field(max_length=100, pattern=r"^[!#-\[\]-~]+$")], ...], Field(strict=False, max_length=20)
    ] = Field(default=("profile",), description="Scopes to request in addition to `openid`.")
    role_claim: ClaimName = Field(default="groups", description="The claim that decides the role.")
    roles: Annotated[tuple[RoleOf, ...], Field(strict=False, min_length=1, max_length=100)] = Field(
        description="The role for each value of the claim. The first row that matches decides. Without one: no login."
    )
    user_claim: ClaimName | None = Field(
        default=None,
        description="The claim that names the user for whom this person requests goals. Without it, this person cannot "
        "request goals.",
    )
    tenant: Identifier | None = Field(default=None, description="The tenant of these users.")
    name: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="your organisation", description="The provider's name on the login button."
    )

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        if self.client_secret_variable is not None and self.client_secret_file is not None:
            raise ValueError("give client_secret_variable or client_secret_file, not both")
        return self
