"""The contracts of calls: an agent with a capability token calls a Python function of the host program.

The arguments are a closed model that is made from the function's signature. The result is signed, and says whether the
effect happened, or that this is unknown.
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
"""A governed function runs in the process of its program, with the access of that process. Every result says so."""


class CallArguments(Contract):
    """The base class of the arguments of every function: closed, and with a limit on the bytes."""

    bounds: ClassVar[Bounds] = SMALL

    @model_validator(mode="after")
    def _check_canonical(self) -> Self:
        bounded_json_validator(MAX_JSON_DEPTH, SMALL.max_items)(self.model_dump(mode="json"))
        return self


class CallPreview(Contract):
    """The preview of a call for a person. Arguments are masked, each as its JSON."""

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

    code: ShortText = Field(description="The kind of refusal or failure, such as `fate_unknown`.")
    what: Text
    where: Text
    next_step: Text

    @classmethod
    def of(cls, problem: RemitError) -> "CallError":
        return cls(code=problem.reason.value, what=problem.what, where=problem.where, next_step=problem.next_step)


class CallResult(Contract):
    """How a call ended. `value` is the return value of the function, and null on FAILURE."""

    call_id: Identifier = Field(description="The caller's key. The same key always gives the same result.")
    function: CallName
    status: Literal["SUCCESS", "FAILURE"]
    effect: CallEffect = Field(
        description="none; done; undone: all is as before; or unknown: the call is not tried again."
    )
    value: JsonData
    error: CallError | None
    confinement: Confinement = Field(description="The function ran in the host's process, and nothing confined it.")
    request_digest: Digest = Field(description="The digest of the function, its arguments, and the agent.")
    key_id: KeyId = Field(description="The executor key that signed it.")
    signature: Signature = Field(description="Covers every other field.")

    @model_validator(mode="after")
    def _check_presence(self) -> Self:
        succeeded = self.status == "SUCCESS"
        if (self.error is None) != succeeded:
            raise ValueError("error must be given exactly if the status is FAILURE")
        if self.value is not None and not succeeded:
            raise ValueError("a failed call has no value")
        if succeeded and self.effect not in {"none", "done"}:
            raise ValueError("the effect of a successful call is none or done")
        return self


class CallWaiting(Contract):
    """A call that waits for an approval. The same call with the same key continues it."""

    approval_id: Uuid
    expires: Timestamp
    what: Text


class CallAnswer(Contract):
    """The answer to a call: its result, or the approval request that it waits for."""

    state: Literal["done", "waiting"]
    call_id: Identifier
    result: CallResult | None = None
    stored: bool = Field(default=False, description="The result is that of an earlier call. This call did nothing.")
    waiting: CallWaiting | None = None

    @model_validator(mode="after")
    def _check_presence(self) -> Self:
        if (self.result is not None) != (self.state == "done") or (self.waiting is not None) == (self.state == "done"):
            raise ValueError("an answer that is done has only result, and one that waits has only waiting")
        return self
