"""The access snapshot: everything that an access decision depends on, as one document. It can be evaluated later."""

from typing import Annotated, ClassVar, Final, Self

from pydantic import AfterValidator, Field, model_validator

from remit.contracts.base import LARGE, Contract, Identifier, Many, RelativePath, VersionOne
from remit.parsing import Bounds

MAX_FILES: Final = 100
MAX_FILE_BYTES: Final = 256 << 10
MAX_ALL_BYTES: Final = 1 << 20
# The engine checks each policy once for each action. With the largest number of policies this takes a few seconds.
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
        raise ValueError("the items must be sorted and unique")
    return items


PolicyText = Annotated[str, Field(max_length=MAX_FILE_BYTES), AfterValidator(_check_size)]

Sorted = Annotated[Many[Identifier], AfterValidator(_check_order)]
"""Sorted and unique ids, so that the same rules give the same document and the same digest."""


class AccessSnapshot(Contract):
    """The policies by file, the users and actions that they can name, and the version of the policy engine."""

    bounds: ClassVar[Bounds] = LARGE

    version: VersionOne
    engine: Annotated[str, Field(max_length=50, pattern=r"^[a-z]+ [0-9A-Za-z.+-]+$")]
    schema_version: VersionOne
    """The version of the Cedar schema that Remit makes for the actions."""
    actions: Annotated[Sorted, Field(max_length=MAX_ACTIONS)]
    tenants: Annotated[dict[Identifier, Sorted], Field(max_length=1_000)]
    """The users of each tenant. Only they may ask."""
    files: Annotated[dict[RelativePath, PolicyText], Field(max_length=MAX_FILES)]

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if sum(len(text.encode("utf-8")) for text in self.files.values()) > MAX_ALL_BYTES:
            raise ValueError(f"the policy files may have at most {MAX_ALL_BYTES >> 20} MiB together")
        # A policy names a user as tenant/user. With a slash in the tenant, two users could have the same name.
        if any("/" in tenant for tenant in self.tenants):
            raise ValueError("the id of a tenant that has access policies may not contain a slash")
        return self
