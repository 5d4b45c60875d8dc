"""The part of `remit.yaml` that is about an identity provider (OpenID Connect)."""

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
"""By TLS, or on this very machine."""
ClaimName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_:./-]+$")]
VariableName = Annotated[str, Field(max_length=100, pattern=r"^[A-Z_][A-Z0-9_]{0,99}$")]


class RoleOf(Contract):
    """One line of the table of roles."""

    value: Annotated[str, Field(min_length=1, max_length=500)] = Field(
        description="What the claim holds, or has in its list."
    )
    role: Literal["viewer", "approver", "operator", "admin"] = Field(description="The role that it gives.")


class Oidc(Contract):
    """An identity provider that people may log in with."""

    issuer: ProviderUrl = Field(description="The provider's `iss`; its discovery document is looked up below it.")
    client_id: Annotated[str, Field(min_length=1, max_length=500)] = Field(
        description="What the provider calls this server."
    )
    client_secret_variable: VariableName | None = Field(
        default=None, description="The environment variable that holds the client's secret."
    )
    client_secret_file: AbsolutePath | None = Field(
        default=None, description="Or the file that holds it, which nobody else may read. Neither: a public client."
    )
    scopes: Annotated[
        tuple[Annotated[str, Field(max_length=100, pattern=r"^[!#-\[\]-~]+$")], ...], Field(strict=False, max_length=20)
    ] = Field(default=("profile",), description="What is asked for beside `openid`.")
    role_claim: ClaimName = Field(default="groups", description="The claim that roles are derived from.")
    roles: Annotated[tuple[RoleOf, ...], Field(strict=False, min_length=1, max_length=100)] = Field(
        description="Which value gives which role; the first line that fits counts. None fits: no entry."
    )
    user_claim: ClaimName | None = Field(
        default=None, description="The claim that says for whom this person asks at the goal door. None given: nobody."
    )
    tenant: Identifier | None = Field(default=None, description="The tenant of those users.")
    name: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="your organisation", description="What the button on the login page calls it."
    )

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        if self.client_secret_variable is not None and self.client_secret_file is not None:
            raise ValueError("give client_secret_variable or client_secret_file, and not both")
        return self
