"""The call door: a Python function of the host program, called by an agent under a capability token.

What it takes is a closed model made from the function's own signature; what comes back is a signed result that says
what became of the effect, also where nobody can know it.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from remit.contracts.base import (
    MAX_JSON_DEPTH,
    SMALL,
    Contract,
    Digest,
    Identifier,
    JsonData,
    KeyId,
    RiskLevel,
    ShortText,
    Signature,
    Text,
    Timestamp,
    Uuid,
    bounded_json_validator,
)
from remit.contracts.browser.capabilities import CALL_NAME
from remit.core.errors import RemitError
from remit.parsing import Bounds

CallName = Annotated[str, Field(max_length=170, pattern=rf"^{CALL_NAME}$")]
"""Up to four words with dots between them, such as `crm.set_discount`."""

CallEffect = Literal["none", "done", "undone", "unknown"]

Confinement = Literal["unconfined"]
"""A governed function runs in its program's own process, with all that this process can reach. Every result says so."""


class CallArguments(Contract):
    """What every function's own model begins with: closed, and of a bounded size in bytes."""

    bounds: ClassVar[Bounds] = SMALL

    @model_validator(mode="after")
    def _check_canonical(self) -> Self:
        bounded_json_validator(MAX_JSON_DEPTH, SMALL.max_items)(self.model_dump(mode="json"))
        return self


class CallPreview(Contract):
    """What a person is shown of a call before it happens. Arguments are masked, each as its JSON."""

    function: CallName
    arguments: Annotated[dict[Annotated[str, Field(max_length=200)], Text], Field(max_length=100)]
    estimated_effect: Text = Field(alias="estimatedEffect")
    risk: RiskLevel
    reversible: bool
    way_back: Text = Field(alias="wayBack")

    @property
    def headline(self) -> str:
        return f"call {self.function}"


class CallError(Contract):
    """Why a call failed. Masked."""

    code: ShortText = Field(description="Which kind of refusal or failure it is, such as `fate_unknown`.")
    what: Text
    where: Text
    next_step: Text

    @classmethod
    def of(cls, problem: RemitError) -> "CallError":
        return cls(code=problem.reason.value, what=problem.what, where=problem.where, next_step=problem.next_step)


class CallResult(Contract):
    """How a call ended. `value` is what the function returned, and null on FAILURE."""

    call_id: Identifier = Field(description="The caller's key: the same one gives the same result, whatever happens.")
    function: CallName
    status: Literal["SUCCESS", "FAILURE"]
    effect: CallEffect = Field(
        description="What became of it: none; done; undone, as it was before; or unknown, and it is not tried again."
    )
    value: JsonData
    error: CallError | None
    confinement: Confinement = Field(description="The function ran in the host's process, and nothing held it back.")
    request_digest: Digest = Field(description="Of the function, its arguments, and the agent.")
    key_id: KeyId = Field(description="The executor key that signed it.")
    signature: Signature = Field(description="Covers every other field.")

    @model_validator(mode="after")
    def _check_presence(self) -> Self:
        succeeded = self.status == "SUCCESS"
        if (self.error is None) != succeeded:
            raise ValueError("error must be there exactly when the status is FAILURE")
        if self.value is not None and not succeeded:
            raise ValueError("a call that failed has no value")
        if succeeded and self.effect not in {"none", "done"}:
            raise ValueError("a call that succeeded is done, or had no effect to begin with")
        return self


class CallWaiting(Contract):
    """A call that nobody has said yes to yet. The same call again, with the same key, goes on with it."""

    approval_id: Uuid
    expires: Timestamp
    what: Text


class CallAnswer(Contract):
    """What a caller is told: the result, or whom the call waits for."""

    state: Literal["done", "waiting"]
    call_id: Identifier
    result: CallResult | None = None
    stored: bool = Field(default=False, description="The result is that of an earlier call; this one did nothing.")
    waiting: CallWaiting | None = None

    @model_validator(mode="after")
    def _check_presence(self) -> Self:
        if (self.result is not None) != (self.state == "done") or (self.waiting is not None) == (self.state == "done"):
            raise ValueError("result belongs to done, waiting to waiting")
        return self
