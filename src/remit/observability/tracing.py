"""Spans for OpenTelemetry, if the environment asks for them.

The packages are an extra and are loaded only then. Without them the engine reads one global name.

A span says which operation, which step, how it ended and with which code, and under which correlation (masked). Nothing
from the request or its result gets into a span: no path, no value, no text of an error.
"""

import contextlib
import functools
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.masking import mask_text
from remit.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

T = TypeVar("T")
INSTALL: Final = "pip install 'remit[otel]'; in a clone: .venv/bin/python -m pip install -e '.[otel]'"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""If the environment has one of these variables, spans are sent to that address over HTTP."""
END_SECONDS: Final = 2.0
"""How long the end of tracing waits for the collector."""
MAX_CORRELATION: Final = 200

STEPS: Final[Mapping[str, str]] = {
    "parse": "1. parse",
    "verify_authority": "2. verify authority",
    "decide": "3. decide",
    "preview": "4. preview",
    "consent": "5. consent",
    "checkpoint": "6. checkpoint",
    "prewarm": "6. stand by",
    "claim": "7. intent",
    "resume": "7. resume",
    "effect": "8. effect",
    "recover_effect": "8. settle",
    "undo": "8. undo",
    "verify_effect": "9. verify",
    "publish": "9. publish",
    "commit": "9. commit",
    "clear_up": "9. clear up",
    "record_outcome": "10. outcome",
    "record_refusal": "10. refusal",
}
"""The span names of the steps, by the methods of the operation and the journal. The eleventh step is the return."""
_TRACE_HEADERS: Final = frozenset({b"traceparent", b"tracestate"})
REPORT: Final = "11. report"

tracer: "Tracer | None" = None
"""None unless tracing is on."""


def is_enabled(environ: Mapping[str, str]) -> bool:
    disabled = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not disabled and any(environ.get(name) for name in ENDPOINTS)


@contextlib.contextmanager
def tracing(environ: Mapping[str, str], exporter: "SpanExporter | None" = None) -> Iterator[bool]:
    """Send spans while inside, if the environment names an address, and yield whether it does.

    The spans that are left are sent at the end. An `exporter` receives each span at once instead. Raises
    EnvironmentFailureError if the extra is missing.
    """
    global tracer  # noqa: PLW0603 - every request reads it, and nothing is cheaper to read than a global
    if exporter is None and not is_enabled(environ):
        yield False
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor  # noqa: PLC0415
    except ImportError as missing:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            f"the environment asks for spans, and the package that sends them is not installed ({missing.name})",
            where=next(name for name in ENDPOINTS if environ.get(name)),
            next_step=f"Install it with: {INSTALL}; or remove the variable from the environment.",
        ) from None
    named = {SERVICE_NAME: environ.get("OTEL_SERVICE_NAME") or "remit", SERVICE_VERSION: __version__}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    processor: SpanProcessor = (
        BatchSpanProcessor(OTLPSpanExporter()) if exporter is None else SimpleSpanProcessor(exporter)
    )
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("remit", __version__)
    try:
        yield True
    finally:
        tracer = None
        _end(provider)


def _end(provider: "TracerProvider") -> None:
    """Send the spans that are left, in a thread, with a short wait.

    If no collector answers, the SDK itself tries for ten seconds and more.
    """

    def send() -> None:
        provider.force_flush()
        provider.shutdown()

    ending = threading.Thread(target=send, name="remit-spans", daemon=True)
    ending.start()
    ending.join(END_SECONDS)


def server_span(
    tracer: "Tracer", headers: Iterable[tuple[bytes, bytes]], method: str
) -> "contextlib.AbstractContextManager[Span]":
    """Start the span of an HTTP request, below the caller's own span if the header `traceparent` names one."""
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - an extra, and loaded by now
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    parent = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in _TRACE_HEADERS}
    return tracer.start_as_current_span(
        method,
        context=TraceContextTextMapPropagator().extract(parent),
        kind=SpanKind.SERVER,
        attributes={"http.request.method": method},
        record_exception=False,
        set_status_on_exception=False,
    )


@contextlib.contextmanager
def activate_span(span: "Span | None") -> Iterator[None]:
    """Put the spans that start inside below this span, in any task."""
    if span is None:
        yield
        return
    from opentelemetry.trace import use_span  # noqa: PLC0415 - an extra, and loaded by now

    with use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        yield


class TraceRecorder:
    """The spans of one request: one for the whole request, and below it one for each step."""

    def __init__(self, tracer: "Tracer", operation: str) -> None:
        self._tracer = tracer
        self._stack = contextlib.ExitStack()
        self._span = self._stack.enter_context(_span(tracer, f"remit {operation}", {"remit.door": operation}))

    def wrap(self, operation: T) -> T:
        return cast(T, _TracedOperation(operation, self))

    def end(self, ending: str) -> None:
        if ending in {"done", "refused", "stored"}:
            self._tracer.start_span(REPORT).end()
        self._span.set_attribute("remit.ending", ending)
        self._stack.close()

    def add_attributes(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """Add the attributes of the whole request to its span: its correlation, and the code of its failure."""
        if name == "trace":
            self._span.set_attribute("remit.correlation_id", mask_text(result.correlation_id[:MAX_CORRELATION]))
        elif name == "fail":
            record_problem(self._span, args[1])

    def run_step(self, name: str, method: Any, *args: Any, **named: Any) -> Any:
        if name not in STEPS:
            result = method(*args, **named)
            self.add_attributes(name, args, result)
            return result
        with _span(self._tracer, STEPS[name]) as span:
            try:
                return method(*args, **named)
            except BaseException as problem:
                record_problem(span, problem)
                raise


class _TracedOperation:
    """An operation or a journal whose steps are recorded as spans. Its other methods are passed through."""

    __slots__ = ("_operation", "_recorder")

    def __init__(self, operation: object, recorder: TraceRecorder) -> None:
        self._operation = operation
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._operation, name)
        if name in STEPS or name in {"trace", "fail"}:
            return functools.partial(self._recorder.run_step, name, found)
        return found


def record_problem(span: "Span", problem: BaseException) -> None:
    """Mark the span as failed, with the code or the name of the class. The text of the problem may hold any data."""
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - an extra, and loaded by now

    span.set_status(StatusCode.ERROR)
    code = problem.reason.value if isinstance(problem, RemitError) else type(problem).__name__
    span.set_attribute("remit.code", code)


def _span(
    tracer: "Tracer", name: str, attributes: Mapping[str, str] | None = None
) -> "contextlib.AbstractContextManager[Span]":
    # OpenTelemetry must not record the exception and its text: `record_problem` adds the code alone.
    return tracer.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    )
