"""The contracts of browser actions: the action, its token, its approval, its result, and its audit record."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from remit.contracts.base import (
    SMALL,
    Contract,
    Count,
    Digest,
    Identifier,
    JsonObject,
    Name,
    ShortText,
    Some,
    Text,
    Timestamp,
    Uuid,
)
from remit.contracts.browser.capabilities import TokenCapability
from remit.contracts.browser.errors import ExecutorError
from remit.contracts.browser.token_rules import unchecked_constraints
from remit.contracts.calls.call import CallPreview
from remit.contracts.domain_patterns import DomainPattern
from remit.contracts.path_globs import MAX_GLOBS, PathGlob
from remit.parsing import Bounds

ActionType = Literal["navigate", "click", "type", "screenshot", "snapshot", "submit", "purchase"]

Url = Annotated[str, Field(min_length=1, max_length=8_192)]
"""An address as it was given. Whether it is valid, and where it leads, is checked later."""

Currency = Annotated[str, Field(max_length=3, pattern=r"^[A-Z]{3}$")]

Number = Annotated[float, Field(ge=0, le=1e12)]

APPROVAL_SECONDS: Final = 600
ISSUER: Final = "abos-policy-authority"
AUDIENCE: Final = "abos-executor"


class Amount(Contract):
    value: Number
    currency: Currency


_ELEMENT_TYPES: Final = frozenset({"click", "type", "submit", "purchase"})


class Action(Contract):
    """One action in the browser. Each type takes exactly the fields that it needs.

    `selector` or `ref` (from a snapshot) names an element. Click, type, submit and purchase need one. A screenshot or
    snapshot of a part of the page may have one. `value` is for type, `amount` for purchase.
    """

    bounds: ClassVar[Bounds] = SMALL

    action_id: Identifier
    type: ActionType
    target: Url
    selector: Annotated[ShortText, Field(min_length=1)] | None = None
    ref: Identifier | None = None
    value: Text | None = None
    amount: Amount | None = None
    session: Identifier | None = None

    @model_validator(mode="after")
    def _check_element(self) -> Self:
        count = (self.selector is not None) + (self.ref is not None)
        if count > 1:
            raise ValueError("give either selector or ref, not both")
        if self.type in _ELEMENT_TYPES and not count:
            raise ValueError(f"{self.type} needs a selector or a ref")
        if self.type == "navigate" and count:
            raise ValueError("navigate takes no selector and no ref")
        return self

    @model_validator(mode="after")
    def _check_value(self) -> Self:
        for name, value, owner in (("value", self.value, "type"), ("amount", self.amount, "purchase")):
            if value is None and self.type == owner:
                raise ValueError(f"{owner} needs a field {name}")
            if value is not None and self.type != owner:
                raise ValueError(f"only {owner} takes a field {name}")
        return self


def _limit_kind(value: Any) -> str:
    return "amount" if isinstance(value, dict | Amount) else "number"


PurchaseLimit = Annotated[
    Annotated[Number, Tag("number")] | Annotated[Amount, Tag("amount")], Discriminator(_limit_kind)
]
"""A number without a currency is in the configured currency."""


class TokenConstraints(Contract):
    """The limits of a capability token. A token with an unknown constraint is refused.

    An absent constraint does not mean that there is no limit. Without `domains` the browser reaches no host, without
    `max_purchase` it buys nothing, without `user` and `tenant` the agent cannot ask for goals, and without `paths` and
    `connections` it reads no file and no database. Only without `max_actions` there is no limit. `token_rules` says
    which constraint works with which capability.
    """

    domains: Some[DomainPattern] | None = None
    """The hosts that the browser may reach."""
    max_purchase: PurchaseLimit | None = None
    """The highest price that a request of the browser may name."""
    max_actions: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The number of actions in the browser."""
    user: Identifier | None = None
    """The user for whom the agent asks for goals. It needs `tenant`."""
    tenant: Identifier | None = None
    """The tenant of `user`."""
    paths: Annotated[Some[PathGlob], Field(max_length=MAX_GLOBS)] | None = None
    """The files whose content previews show to the agent, as globs relative to the root."""
    connections: Annotated[Some[Name], Field(max_length=MAX_GLOBS)] | None = None
    """The connections of remit.yaml whose rows previews show to the agent."""

    @model_validator(mode="after")
    def _check_user(self) -> Self:
        if (self.user is None) != (self.tenant is None):
            raise ValueError("user and tenant must be given together, because each user belongs to a tenant")
        return self

    def given(self) -> tuple[str, ...]:
        """Return the names of the constraints that are set.

        Returns:
            The names, in the order of the fields.
        """
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)


class TokenClaims(Contract):
    """The payload of a capability token, after its signature was verified. Times are whole seconds since 1970.

    `aud` is one text. A token with a list of audiences is refused, because each of them could use it at the others.
    """

    bounds: ClassVar[Bounds] = SMALL

    iss: Identifier
    aud: Identifier
    sub: Identifier
    jti: Identifier
    iat: Count
    exp: Count
    nbf: Count | None = None
    caps: Some[TokenCapability]
    constraints: TokenConstraints = TokenConstraints()

    @model_validator(mode="after")
    def _check_constraints(self) -> Self:
        for problem in unchecked_constraints(self.caps, self.constraints.given()):
            raise ValueError(problem.why)
        return self


FieldMap = Annotated[dict[Annotated[str, Field(max_length=500)], Text], Field(max_length=500)]


class PreviewBody(Contract):
    """The fields of the request: `masked` has those whose values are masked, `preview` those that are shown."""

    masked: FieldMap
    preview: FieldMap


class HTTPPreview(Contract):
    """The request that will be sent, as a person may see it. The method is null for a password that is typed."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None
    url: Url
    headers: FieldMap
    body: PreviewBody
    estimated_effect: Text = Field(alias="estimatedEffect")

    @property
    def headline(self) -> str:
        return f"{self.method or 'at'} {self.url}"


def _preview_kind(value: Any) -> str:
    is_call = isinstance(value, CallPreview) or (
        isinstance(value, dict) and not {"method", "url", "body"} & value.keys()
    )
    return "call" if is_call else "request"


ApprovalPreview = Annotated[
    Annotated[HTTPPreview, Tag("request")] | Annotated[CallPreview, Tag("call")], Discriminator(_preview_kind)
]
"""The subject of an approval request: a held request, or a call of a function."""


class ApprovalRequest(Contract):
    """A request to a person to approve or deny exactly one held request."""

    approval_id: Uuid = Field(alias="approvalId")
    agent_id: Identifier = Field(alias="agentId")
    token_jti: Identifier = Field(alias="tokenJti")
    request_digest: Digest = Field(alias="requestDigest")
    preview: HTTPPreview
    expires: Timestamp


ApprovalState = Literal["PENDING", "APPROVED", "DENIED", "EXPIRED", "VOID", "USED"]


LASTING: Final = "lasting"
"""The value of `host` if no process holds anything for the approval request. It stays open when processes end."""


class Approval(Contract):
    """An approval request and its outcome: who decided, when, and whether the approval was used."""

    approval_id: Uuid = Field(alias="approvalId")
    agent_id: Identifier = Field(alias="agentId")
    token_jti: Identifier = Field(alias="tokenJti")
    action_id: Identifier = Field(alias="actionId")
    action_digest: Digest = Field(alias="actionDigest")
    request_digest: Digest = Field(alias="requestDigest")
    preview: ApprovalPreview
    screenshot: ShortText | None = None
    host: ShortText = Field(
        description="The process that holds the request. If it ends, the approval request is void. `lasting`: none."
    )
    created_at: Timestamp = Field(alias="createdAt")
    expires: Timestamp
    state: ApprovalState
    decided_by: Identifier | None = Field(default=None, alias="decidedBy")
    decided_at: Timestamp | None = Field(default=None, alias="decidedAt")
    reason: ShortText | None = None


class ApprovalDecision(Contract):
    """A person's decision about exactly this request."""

    approval_id: Uuid = Field(alias="approvalId")
    request_digest: Digest = Field(alias="requestDigest")
    approved: bool
    decided_by: Identifier = Field(alias="decidedBy")
    decided_at: Timestamp = Field(alias="decidedAt")


class ActionResult(Contract):
    """How an action ended: with an output, or with a reason and an error."""

    action_id: Identifier
    success: bool
    reason: ShortText | None = None
    error: ExecutorError | None = None
    output: JsonObject | None = Field(default=None, description="See action-output.")
    sent: Count = Field(
        default=0, description="The number of requests that change something and were sent, or may have been."
    )
    content_hash_before: Digest | None = Field(default=None, alias="contentHashBefore")
    content_hash_after: Digest | None = Field(default=None, alias="contentHashAfter")

    @model_validator(mode="after")
    def _check_presence(self) -> Self:
        if (self.error is None) != self.success or (self.reason is None) != self.success:
            raise ValueError("reason and error must be given exactly if the action did not succeed")
        if self.output is not None and not self.success:
            raise ValueError("an action that did not succeed has no output")
        return self


class AuditRecord(Contract):
    """The audit record of one action, whether it was allowed or not. `target` is masked."""

    timestamp: Timestamp
    agent_id: Identifier = Field(alias="agentId")
    action: ActionType
    target: Url
    token_jti: Identifier = Field(alias="tokenJti")
    success: bool
    content_hash_before: Digest | None = Field(alias="contentHashBefore")
    content_hash_after: Digest | None = Field(alias="contentHashAfter")
