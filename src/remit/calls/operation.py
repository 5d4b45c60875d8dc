"""The operation of calls: an agent with a token calls a function of the host program, once for each key.

The function runs in the process that declared it, because a business operation needs its clients and its credentials.
Only the checks of this operation restrict it; it runs in no sandbox. Each result says `unconfined`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from remit.approvals.service import ApprovalService
from remit.authority.capability_token import claimed_agent, require_in_time
from remit.authority.results import sign_call_result, verify_call_result
from remit.calls.approval import SuspendedInCallError, WaitsForPersonError, can_wait, require_approval
from remit.calls.checkpoint import (
    HIDDEN,
    CallCheckpoint,
    CallRequest,
    CallTokens,
    GrantedCall,
    InterruptedCall,
    Returned,
    ShownCall,
    audit_event,
    is_deferred,
    parse_call_checkpoint,
    render_call,
    render_call_checkpoint,
    render_summary,
    require_json,
    require_result,
)
from remit.calls.errors import (
    LOOK_ADVICE,
    call_failure,
    companion_failure,
    describe_call,
    missing_function_error,
    require_model,
    unfinished_call_error,
)
from remit.calls.function import GovernedFunction, Invoker, NotDoneError, named
from remit.calls.policy import capability_missing, decide_call
from remit.calls.redaction import hide_private
from remit.contracts.browser.browser import Approval
from remit.contracts.calls.call import CallError, CallResult
from remit.core.canonical import digest, digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.core.ids import DEFAULT_TENANT
from remit.crypto.signing import Keyring, Signer
from remit.execution.decision import PolicyDecision
from remit.execution.engine import (
    IncompleteError,
    Note,
    Notes,
    Operation,
    Preview,
    SuspendedError,
    VerificationFailedError,
)
from remit.execution.journal import ExtraRecord, RequestIds
from remit.ledger.writer import Batch


@dataclass(frozen=True)
class CallOperation(Operation[CallRequest, GrantedCall, CallCheckpoint, Returned | InterruptedCall, CallResult]):
    """The engine steps for a call. `recovers_only` means that no authority is present: no call is repeated."""

    functions: Mapping[str, GovernedFunction]
    keyring: Callable[[], Keyring]
    signer: Callable[[], Signer]
    tokens: CallTokens
    approvals: ApprovalService
    invoke: Invoker = field(default_factory=Invoker)
    wait: float | None = 0.0
    on_waiting: Callable[[Approval], None] = lambda _: None
    recovers_only: bool = False
    has_intent: Callable[[CallRequest], bool] = lambda _: False
    """Whether this call has an intent, of any process, and no outcome yet."""
    name: str = field(default="call", init=False)

    def parse(self, raw: tuple[bytes, ...]) -> CallRequest:
        """Parse the call. The name and the key come from the program, the arguments from the agent."""
        name, call_id, arguments, token = raw[0].decode(), raw[1].decode(), raw[2], raw[3].decode("utf-8", "replace")
        function = self.functions.get(name)
        if function is None:
            raise RefusedError(
                Reason.CAPABILITY_UNSUPPORTED,
                "this program has no governed function of this name",
                where=f"function {name}",
                next_step="Declare it with @governed before it is called.",
            )
        model = function.arguments.parse(arguments, source=f"arguments of {name}")
        tree = model.tree()
        # The digest includes the agent, so another agent who knows the call cannot get its result.
        whole = digest({"function": name, "arguments": tree, "agent": claimed_agent(token)})
        return CallRequest(name, call_id, tree, model, function, token, whole)

    def trace(self, request: CallRequest) -> RequestIds:
        return RequestIds(
            tenant_id=DEFAULT_TENANT,
            correlation_id=request.call_id,
            scope=self.name,
            key=request.call_id,
            request_digest=request.digest,
            capability_id=f"call.{request.name}",
            authority=lambda: digest_bytes(request.token.encode()),
        )

    def verify_authority(self, request: CallRequest, now: datetime) -> GrantedCall:
        token = self.tokens.verify(request.token, now)
        request.audit.token, request.audit.agent_id, request.audit.jti = token, token.agent_id, token.jti
        if request.function is None or request.model is None:
            raise missing_function_error(request)
        # Checked before any lookup, because a token that may not make the call may not read its stored result either.
        if (denial := capability_missing(token, request.function)) is not None:
            PolicyDecision(denials=(denial,)).require()
        return GrantedCall(request, request.function, request.model, token)

    def decide(self, request: CallRequest) -> PolicyDecision:
        if request.audit.token is None or request.function is None or request.model is None:
            return PolicyDecision(("it was started under a token, and is only finished now",))
        decision, request.audit.verdict = decide_call(request.audit.token, request.function, request.model)
        return decision

    def preview(self, granted: GrantedCall) -> ShownCall:
        function, sentence = granted.function, ""
        if function.preview is not None:
            sentence = self._call_companion("preview", function.preview, granted.request)
            if not isinstance(sentence, str):
                raise companion_failure("preview", granted.request, "it did not return a text")
        shown = render_call(function, granted.request.arguments, hide_private(sentence, granted.request))
        return ShownCall(render_summary(shown), digest([granted.request.digest, shown.digest()]), shown)

    def consent(self, granted: GrantedCall, preview: Preview, now: datetime) -> str:
        """Require an approval of this call and this preview, unless the declaration of the function needs none."""
        function, verdict = granted.function, granted.request.audit.verdict
        if function.consent == "none" and verdict != "ask":
            return f"none needed: {'it only reads' if function.read_only else 'it can be undone'}"
        if function.consent == "policy" and verdict == "allow":
            return "policy: the rule of this function allows it"
        if not isinstance(preview, ShownCall):
            raise RefusedError(Reason.APPROVAL_DENIED, "there is no preview that a person could be shown")
        approval = require_approval(self.approvals, granted, preview, self.wait, self.on_waiting)
        granted.approvals[:] = [approval]
        return f"approval {approval.approval_id} by {approval.decided_by}"

    def checkpoint(self, granted: GrantedCall, preview: Preview) -> str:
        function, before = granted.function, None
        if function.before is not None:
            found = self._call_companion("before", function.before, granted.request)
            before = require_json(found, "what before= returned", f"function {function.name}")
        return render_call_checkpoint(granted.request, before)

    def require_still_valid(self, granted: GrantedCall, now: datetime) -> None:
        require_in_time(granted.token, now)

    def consume_authority(self, granted: GrantedCall, batch: Batch, now: datetime) -> None:
        self.tokens.require_still_valid(batch.store, granted.token, now)
        for approval in granted.approvals:
            self.approvals.use(
                batch,
                approval.approval_id,
                request_digest=approval.request_digest,
                action_digest=granted.request.digest,
                token_jti=granted.token.jti,
            )

    def recheck_authority(self, granted: GrantedCall, batch: Batch, now: datetime) -> None:
        self.tokens.require_still_valid(batch.store, granted.token, now)

    def load_checkpoint(self, text: str) -> tuple[CallRequest, CallCheckpoint]:
        checkpoint = parse_call_checkpoint(text, self.functions)
        return checkpoint.request, checkpoint

    def effect(self, granted: GrantedCall, checkpoint: CallCheckpoint, note: Note) -> Returned:
        function = granted.function
        try:
            reach("call.begun")
            value = self.invoke(function.run, **named(granted.model))
            reach("call.returned")
        except NotDoneError as problem:
            checkpoint.fate.effect = "none"
            raise call_failure(problem, checkpoint, "The function reports that it changed nothing.") from None
        except BaseException as problem:  # noqa: BLE001 - whatever it raises, it may have changed something
            if isinstance(problem, WaitsForPersonError) and can_wait(function):
                raise SuspendedInCallError(problem) from None
            self._undo_failed_call(checkpoint, problem)
            raise call_failure(problem, checkpoint, "") from None
        try:
            value_json = require_result(value, f"function {function.name}")
        except RefusedError as problem:
            self._undo_failed_call(checkpoint, problem)
            if checkpoint.fate.effect == "unknown" and not is_deferred(value):
                checkpoint.fate.effect = "done"
            raise call_failure(problem, checkpoint, "") from None
        checkpoint.fate.effect = "none" if function.read_only else "done"
        return Returned(value_json)

    def recover_effect(self, checkpoint: CallCheckpoint, notes: Notes, note: Note) -> InterruptedCall | None:
        """Return None if the call may run from the start: it was undone, only reads, or is idempotent."""
        function = checkpoint.request.function
        if function is None:
            raise missing_function_error(checkpoint.request)
        if function.undo is not None:
            self.undo(checkpoint, notes, note)
            end = "and undone"
        elif function.read_only:
            checkpoint.fate.effect = "none"
            end = "and only reads: nothing was changed"
        elif function.idempotent and self.recovers_only:
            raise SuspendedError(
                Reason.IN_PROGRESS,
                "it was interrupted; the same call, with the same key and a valid token, completes it",
                where=describe_call(checkpoint.request),
                next_step=f"Or close it as it is: remit recover --abandon {checkpoint.request.call_id}",
            )
        elif not function.idempotent:
            what = "it was interrupted, and it is not known whether it took effect"
            return InterruptedCall(
                EnvironmentFailureError(
                    Reason.FATE_UNKNOWN, what, where=describe_call(checkpoint.request), next_step=LOOK_ADVICE
                )
            )
        else:
            end = ""
        if not self.recovers_only:
            return None
        problem = EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            f"it was interrupted {end}",
            where=describe_call(checkpoint.request),
            next_step=self.try_again,
        )
        return InterruptedCall(problem)

    def undo(self, checkpoint: CallCheckpoint, notes: Notes, note: Note) -> None:
        """Undo the call. Without an undo function its effect stays, and the result says that it is unknown."""
        request = checkpoint.request
        if request.function is None or request.model is None:
            raise missing_function_error(request)
        if request.function.undo is None:
            checkpoint.fate.effect = "none" if request.function.read_only else "unknown"
            return
        try:
            self.invoke(request.function.undo, checkpoint.before, **named(request.model))
        except Exception as problem:
            raise companion_failure("undo", request, f"{type(problem).__name__}: {problem}") from problem
        checkpoint.fate.effect = "undone"
        reach("road.undone")

    def verify_effect(self, checkpoint: CallCheckpoint, made: Returned | InterruptedCall) -> None:
        request = checkpoint.request
        if isinstance(made, InterruptedCall) or request.function is None or request.function.verify is None:
            return
        why = "verify= does not confirm that it is done"
        try:
            is_verified = self.invoke(request.function.verify, made.value, **named(require_model(request)))
        except Exception as problem:  # noqa: BLE001 - a check that fails does not confirm
            is_verified, why = False, hide_private(f"verify= failed: {type(problem).__name__}: {problem}", request)
        if is_verified is not True:
            raise VerificationFailedError(Reason.EFFECT_FAILED, why, where=describe_call(request))

    def succeed(self, request: CallRequest, checkpoint: CallCheckpoint, made: Returned | InterruptedCall) -> CallResult:
        if isinstance(made, InterruptedCall):
            return self.fail(request, made.problem, checkpoint)
        return self._sign(request, status="SUCCESS", effect=checkpoint.fate.effect, value=made.value, error=None)

    def fail(self, request: CallRequest, problem: RemitError, checkpoint: CallCheckpoint | None = None) -> CallResult:
        if checkpoint is None and self.has_intent(request):
            raise unfinished_call_error(problem, request)
        effect = "none" if checkpoint is None else checkpoint.fate.effect
        error = CallError.of(problem)
        if effect == "unknown":
            advice = problem.next_step if problem.reason is Reason.FATE_UNKNOWN else LOOK_ADVICE
            error = error.model_copy(update={"code": Reason.FATE_UNKNOWN.value, "next_step": advice})
        return self._sign(request, status="FAILURE", effect=effect, value=None, error=error.tree())

    def store_outcome(self, outcome: CallResult) -> str:
        return outcome.canonical().decode()

    def show_outcome(self, outcome: CallResult, stored: str) -> Mapping[str, Any]:
        """Show the result, but not the value of a call with private arguments: ledger entries are permanent."""
        shown = json.loads(stored)
        function = self.functions.get(outcome.function)
        if outcome.value is not None and (function is None or function.private):
            shown["value"] = HIDDEN
        return {"outcome": shown}

    def load_outcome(self, stored: str, recorded_at: str) -> CallResult:
        try:
            result = CallResult.parse(stored.encode(), source="stored result")
            verify_call_result(result, self.keyring(), recorded_at)
        except RefusedError as problem:
            raise EnvironmentFailureError(
                Reason.EVIDENCE_INVALID,
                f"the stored result cannot be verified: {problem.what}",
                where=problem.where,
                next_step="`remit ledger verify` shows what was changed. `remit keys list` shows revoked keys.",
            ) from None
        return result

    def extra_entries(self, request: CallRequest, outcome: CallResult) -> Sequence[ExtraRecord]:
        return (audit_event(request, outcome),)

    def _undo_failed_call(self, checkpoint: CallCheckpoint, problem: BaseException) -> None:
        """Undo a failed call, if it has an undo function. Otherwise its effect is recorded as unknown."""
        try:
            self.undo(checkpoint, (), lambda _: None)
        except RemitError as second:
            raise IncompleteError(
                Reason.EFFECT_FAILED,
                f"the function failed ({type(problem).__name__}), and could not be undone yet: {second.what}",
                where=describe_call(checkpoint.request),
                next_step="Fix the cause. Then the next start of this program undoes it. Do not call it"
                " under another key meanwhile.",
            ) from problem

    def _call_companion(self, what: str, companion: Callable[..., Any], request: CallRequest) -> Any:
        try:
            return self.invoke(companion, **named(require_model(request)))
        except Exception as problem:
            raise companion_failure(what, request, f"{type(problem).__name__}: {problem}") from problem

    def _sign(self, request: CallRequest, **fields: Any) -> CallResult:
        identity = {"call_id": request.call_id, "function": request.name, "request_digest": request.digest}
        return sign_call_result(self.signer(), {**identity, **fields, "confinement": "unconfined"})
