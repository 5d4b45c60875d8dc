"""Everything that a decision about access depends on, as one document: a snapshot that can be asked again later."""

from typing import Annotated, ClassVar, Final, Self

from pydantic import AfterValidator, Field, model_validator

from remit.contracts.base import LARGE, Contract, Identifier, Many, RelativePath, VersionOne
from remit.parsing import Bounds

MAX_FILES: Final = 100
MAX_FILE_BYTES: Final = 256 << 10
MAX_ALL_BYTES: Final = 1 << 20
# The engine checks each policy once for each action: these, with the most policies, are a few seconds.
MAX_ACTIONS: Final = 500


def _check_size(text: str) -> str:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise ValueError("a policy file must be valid Unicode") from None
    if size > MAX_FILE_BYTES:
        raise ValueError(f"a policy file may have at most {MAX_FILE_BYTES >> 10} KiB")
    return text


def _check_order(items: tuple[str, ...]) -> tuple[str, ...]:
    if list(items) != sorted(set(items)):
        raise ValueError("these must be sorted, each once")
    return items


PolicyText = Annotated[str, Field(max_length=MAX_FILE_BYTES), AfterValidator(_check_size)]

Sorted = Annotated[Many[Identifier], AfterValidator(_check_order)]
"""In one order, each once: the same rules are the same document, with the same digest."""


class AccessSnapshot(Contract):
    """The policies by file, whom and what they are about, and which engine was asked."""

    bounds: ClassVar[Bounds] = LARGE

    version: VersionOne
    engine: Annotated[str, Field(max_length=50, pattern=r"^[a-z]+ [0-9A-Za-z.+-]+$")]
    schema_version: VersionOne
    """Of the Cedar schema that Remit makes for the actions."""
    actions: Annotated[Sorted, Field(max_length=MAX_ACTIONS)]
    tenants: Annotated[dict[Identifier, Sorted], Field(max_length=1_000)]
    """Who may ask: the users of each tenant."""
    files: Annotated[dict[RelativePath, PolicyText], Field(max_length=MAX_FILES)]

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if sum(len(text.encode("utf-8")) for text in self.files.values()) > MAX_ALL_BYTES:
            raise ValueError(f"the policy files may have at most {MAX_ALL_BYTES >> 20} MiB together")
        # A user is called tenant/user in a policy: with a slash in the tenant, two users could have one name.
        if any("/" in tenant for tenant in self.tenants):
            raise ValueError("the id of a tenant that has access policies may not contain a slash")
        return self
