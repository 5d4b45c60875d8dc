"""The base of all wire models: unknown fields are refused, sizes are bounded, and one method parses bytes to a model.

Every string, list and mapping has a limit of its own, so a model that is built inside Remit is bounded too.
`Contract.bounds` limits the bytes before anything is built from them. The largest bounds are `LARGE`, and 1 MiB more
for an envelope around a plan. A process of less than 100 MB can read the worst document of that size.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
)

from remit.contracts.validation_errors import refusal
from remit.core.canonical import MAX_SAFE_INTEGER, canonical_bytes, digest_bytes
from remit.core.errors import Reason, UsageError
from remit.core.ids import parse_time
from remit.parsing import Bounds, parse_json

T = TypeVar("T")
V = TypeVar("V")

SMALL: Final = Bounds(max_bytes=64 << 10, max_items=2_000)
LARGE: Final = Bounds(max_bytes=5 << 20)

MAX_JSON_DEPTH: Final = 24
# From this number on the canonical form has an exponent. A smaller whole number reads as an integer.
FIRST_WITH_EXPONENT: Final = 1e21
MAX_JSON_VALUES: Final = 20_000


class Contract(BaseModel):
    """The base class of documents: closed, strict and immutable models.

    Bytes from outside become a model only by `parse`. Times, digests and enumerations stay the strings of the document,
    so that the checks see exactly what was signed.
    """

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
        validate_default=True,
        defer_build=True,
    )

    bounds: ClassVar[Bounds] = Bounds()

    @classmethod
    def parse(cls, raw: bytes, *, source: str = "") -> Self:
        """Parse untrusted bytes. An error names the field and never contains a value of the input.

        Args:
            raw: The bytes of a JSON document.
            source: The name of the document in error messages; the name of the class if omitted.

        Returns:
            The model.

        Raises:
            RefusedError: The bytes are not JSON, are past the bounds, or do not fit the model.
            UsageError: `raw` is not of the type `bytes`.
        """
        name = source or cls.__name__
        if not isinstance(raw, bytes):
            raise UsageError(
                Reason.MISUSE,
                f"a {cls.__name__} must be given as the bytes of its JSON, not as {type(raw).__name__}",
                where=name,
                next_step="Encode a text as UTF-8, or call canonical() of a model.",
            )
        return cls.from_tree(parse_json(raw, cls.bounds, source=name), source=name)

    @classmethod
    def from_tree(cls, tree: Any, *, source: str = "") -> Self:
        """Make the model from an already parsed JSON value.

        Args:
            tree: The JSON value.
            source: The name of the document in error messages; the name of the class if omitted.

        Returns:
            The model.

        Raises:
            RefusedError: The value does not fit the model.
        """
        try:
            return cls.model_validate(tree)
        except ValidationError as problem:
            raise refusal(problem, tree, cls.__name__, source) from None

    def tree(self) -> dict[str, Any]:
        """Return plain JSON values. Every field is present, and null if no value was given.

        Returns:
            The values by the names of the fields.
        """
        return self.model_dump(mode="json", by_alias=True)

    def canonical(self, *, without: frozenset[str] = frozenset()) -> bytes:
        """Return the canonical bytes (RFC 8785) of `tree`.

        Args:
            without: Names of top-level fields to leave out. A signature, for example, cannot cover itself.

        Returns:
            The bytes. The same content has the same bytes on every machine.
        """
        tree = self.model_dump(mode="json", by_alias=True, exclude=set(without))  # by the fields' own names
        return canonical_bytes({key: value for key, value in tree.items() if key not in without})

    def digest(self) -> str:
        """Return the SHA-256 of the canonical bytes.

        Returns:
            `sha256:` and 64 hexadecimal digits.
        """
        return digest_bytes(self.canonical())


class ExtendedContract(Contract):
    """A contract that got fields after documents of it were signed. They are left out while they have their default.

    So a document without them keeps the digest that it had before the fields existed. Name the fields in `added_later`.
    The default of such a field must never change: two meanings would then have one digest.
    """

    added_later: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _omit_defaults(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = serialise(self)
        fields = type(self).model_fields
        for name in self.added_later:
            if getattr(self, name) == fields[name].get_default(call_default_factory=True):
                tree.pop(name, None)
        return tree


class OneOf(Generic[T]):
    """A closed union of contracts. One field names the contract. A union is parsed like a single contract."""

    def __init__(self, union: Any, name: str, description: str, bounds: Bounds | None = None) -> None:
        self.adapter: TypeAdapter[T] = TypeAdapter(union)
        self.name = name
        self.description = description
        self.bounds = bounds or Bounds()

    def parse(self, raw: bytes, *, source: str = "") -> T:
        name = source or self.name
        return self.from_tree(parse_json(raw, self.bounds, source=name), source=name)

    def from_tree(self, tree: Any, *, source: str = "") -> T:
        try:
            return self.adapter.validate_python(tree)
        except ValidationError as problem:
            raise refusal(problem, tree, self.name, source) from None


# --- checks ---------------------------------------------------------------------------------------------------------


def _check_time(text: str) -> str:
    parse_time(text)
    return text


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("an id may hold printable characters only")
    return text


def _check_path(text: str) -> str:
    if "\0" in text:
        raise ValueError("a path cannot hold NUL")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise ValueError("a path must be valid Unicode") from None
    if size > 4096:
        raise ValueError("a path may have at most 4096 bytes")
    return text


def _check_some(items: tuple[T, ...]) -> tuple[T, ...]:
    if not items:
        raise ValueError("there must be at least one")
    return items


def _reads_as_unsafe_integer(item: Any) -> bool:
    if isinstance(item, float):
        return MAX_SAFE_INTEGER < abs(item) < FIRST_WITH_EXPONENT
    return isinstance(item, int) and abs(item) > MAX_SAFE_INTEGER


def bounded_json_validator(max_depth: int, max_values: int) -> Callable[[V], V]:
    """Return a check that a value is bounded and that its canonical form reads back as the same value.

    So a value that cannot be signed is refused when it is parsed, with its place in the document.
    """

    def check(value: V) -> V:
        pending: list[tuple[Any, int]] = [(value, 0)]
        count = 0
        while pending:
            item, depth = pending.pop()
            count += 1
            if depth > max_depth:
                raise ValueError(f"the nesting is deeper than {max_depth} levels")
            if isinstance(item, dict):
                pending.extend((child, depth + 1) for child in item.values())
            elif isinstance(item, list):
                pending.extend((child, depth + 1) for child in item)
            elif _reads_as_unsafe_integer(item):
                raise ValueError("an integer is past 2^53-1; send it as a string")
            if count + len(pending) > max_values:
                raise ValueError(f"there are more than {max_values:,} values")
        return value

    return check


# --- the field types ------------------------------------------------------------------------------------------------

Identifier = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_printable)]
"""A field type: an id of 1 to 200 printable characters, chosen by the caller, or a digest."""

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"

Uuid = Annotated[str, Field(max_length=36, pattern=f"^{_UUID}$", json_schema_extra={"format": "uuid"})]
"""A UUID of any version, in lower case."""

Uuid4 = Annotated[
    str, Field(max_length=36, pattern=f"^{_UUID.replace('[1-8]', '4')}$", json_schema_extra={"format": "uuid"})
]

Timestamp = Annotated[
    str,
    Field(
        max_length=27,
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z$",
        json_schema_extra={"format": "date-time"},
    ),
    AfterValidator(_check_time),
]
"""RFC 3339 in UTC, ending in Z, with at most six decimals."""

Digest = Annotated[str, Field(max_length=71, pattern=r"^sha256:[0-9a-f]{64}$")]
"""`sha256:` and the hash in hex, of canonical JSON or of a file's bytes."""

VersionOne = Annotated[int, Field(ge=1, le=1)]
"""The integer 1. `Literal[1]` would also accept `true`."""

Base64Url = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=1024)]

# The last character carries fewer than six bits; the spare ones must be zero, so that a value has one spelling only.
Signature = Annotated[str, Field(max_length=86, pattern=r"^[A-Za-z0-9_-]{85}[AQgw]$")]
"""An Ed25519 signature, base64url without padding."""

KeyId = Annotated[str, Field(max_length=43, pattern=r"^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$")]
"""RFC 7638 thumbprint of the public key."""

RelativePath = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_check_path)]
"""A path below the project root: not empty, no NUL, at most 4096 bytes. Only the text is checked here. The code that
opens the path checks that it stays below the root."""

AbsolutePath = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_check_path)]
"""A field type: a path of at most 4096 bytes. A relative path is refused later, in the signed result."""

ReasonCode = Annotated[str, Field(max_length=100, pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]

Name = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
"""The name of something registered in the configuration."""

RiskLevel = Literal["LOW", "MEDIUM", "HIGH", "CRITICAL"]

MAX_SHORT_TEXT: Final = 1_000
MAX_TEXT: Final = 10_000
ShortText = Annotated[str, Field(max_length=MAX_SHORT_TEXT)]

Text = Annotated[str, Field(max_length=MAX_TEXT)]

LongText = Annotated[str, Field(max_length=LARGE.max_bytes)]
"""The content of a file. The bounds of the document limit its size."""

Count = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]

JsonData = Annotated[JsonValue, AfterValidator(bounded_json_validator(MAX_JSON_DEPTH, MAX_JSON_VALUES))]
"""Any JSON value with a canonical form, at most 24 deep, with at most 20,000 values."""

JsonObject = Annotated[
    dict[Annotated[str, Field(max_length=200)], JsonValue],
    Field(max_length=1_000),
    AfterValidator(bounded_json_validator(MAX_JSON_DEPTH, MAX_JSON_VALUES)),
]
"""An object with any names, at most 1,000 of them. Its values are as in `JsonData`."""

Many = Annotated[tuple[T, ...], Field(strict=False, max_length=1_000, fail_fast=True)]
"""A JSON array as an immutable tuple. The parser's list is converted; the items are strict."""

Some = Annotated[
    tuple[T, ...],
    Field(strict=False, max_length=1_000, fail_fast=True, json_schema_extra={"minItems": 1}),
    AfterValidator(_check_some),
]
"""A JSON array with at least one item, as an immutable tuple."""
