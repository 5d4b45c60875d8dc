"""What the goal door can do: simulations, their fields, and the one action that each is bound to. Models only.

A simulation is a definition, not an attempt: what it does is one task, plan, query or browser action, whose open places
are filled with typed values. The files are written by people; see `remit.goals.catalogue.catalogue` for what must hold
between several of them.
"""

from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from remit.contracts.base import (
    Contract,
    Digest,
    Identifier,
    JsonObject,
    Many,
    Name,
    RelativePath,
    RiskLevel,
    ShortText,
    Some,
    VersionOne,
)
from remit.contracts.browser.browser import PurchaseLimit
from remit.contracts.domain_patterns import DomainPattern
from remit.contracts.goals.goal import LanguageTag
from remit.contracts.goals.localised_text import Question, Title, in_language
from remit.parsing import Bounds

Impact = Literal["read_only", "impactful", "side_effecting", "irreversible"]
State = Literal["DRAFT", "ACTIVE", "RETIRED"]

MAX_STEP_SECONDS: Final = 300
UNDOES: Final = "of"
"""The field of a simulation that takes another back: the correlation id of the goal."""

FieldName = Annotated[str, Field(max_length=40, pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""Also the name of a place in a phrase and in an action: `{order_id}`."""

Pattern = Annotated[str, Field(min_length=1, max_length=500)]
"""RE2, for the whole value."""

Phrase = Annotated[str, Field(min_length=1, max_length=300)]
Currency = Annotated[str, Field(max_length=3, pattern=r"^[A-Z]{3}$")]
Whole = Annotated[int, Field(ge=-999_999_999_999_999, le=999_999_999_999_999)]


class _AnyField(Contract):
    question: Question = Field(
        description="What the user is asked when it is missing, word for word; or that by language."
    )
    optional: bool = Field(default=False, description="Whether the simulation does without; then nobody asks for it.")


class TextField(_AnyField):
    """Any text on one line."""

    type: Literal["text"]
    max_length: Annotated[int, Field(ge=1, le=1_000)] = 200
    pattern: Pattern | None = Field(default=None, description="RE2; the whole text must match.")


class IdentifierField(_AnyField):
    """A letter or digit, then letters, digits and `_ . -`, at most 100."""

    type: Literal["identifier"]
    pattern: Pattern | None = Field(default=None, description="RE2; the whole identifier must match.")


class IntegerField(_AnyField):
    type: Literal["integer"]
    minimum: Whole | None = None
    maximum: Whole | None = None

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.minimum is not None and self.maximum is not None and self.maximum < self.minimum:
            raise ValueError("maximum must not be below minimum")
        return self


class AmountField(_AnyField):
    """Money: a decimal as text, and an ISO 4217 code."""

    type: Literal["amount"]
    currencies: Annotated[Many[Currency], Field(max_length=50)] = Field(
        default=(), description="Those that are taken. None given: all."
    )


class DateField(_AnyField):
    """A day, as 2026-01-31."""

    type: Literal["date"]


class EmailField(_AnyField):
    type: Literal["email"]


class ChoiceField(_AnyField):
    """One of a few words, whichever way it is capitalised; the value is the word as it stands here."""

    type: Literal["choice"]
    choices: Annotated[Some[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=50)]


class PathField(_AnyField):
    """A path below the root: no `..`, no `//`, not absolute."""

    type: Literal["path"]


FieldSpec = Annotated[
    TextField | IdentifierField | IntegerField | AmountField | DateField | EmailField | ChoiceField | PathField,
    Field(discriminator="type"),
]


class TaskBinding(Contract):
    """A task of the task door. The manifest's id is made when it is dispatched."""

    type: Literal["task"]
    capability_id: Identifier
    inputs: JsonObject
    reversible: bool = True


class PlanBinding(Contract):
    """A plan without its id: written out, or in a file of its own, which the loader puts in its place."""

    type: Literal["plan"]
    template: JsonObject | None = None
    template_file: RelativePath | None = None

    @model_validator(mode="after")
    def _check_one_template(self) -> Self:
        if (self.template is None) == (self.template_file is None):
            raise ValueError("give template or template_file, and not both")
        return self


class SqlBinding(Contract):
    """One query with bound parameters; becomes a plan with one SQL action."""

    type: Literal["sql"]
    connection: Name
    query: Annotated[str, Field(min_length=1, max_length=20_000)]
    parameters: JsonObject = Field(default_factory=dict)
    description: ShortText = ""
    expect_results: bool = False
    save_results_to: RelativePath | None = None
    reversible: bool = True


class BrowserBinding(Contract):
    """One browser action without its id, and what its token may be good for."""

    type: Literal["browser"]
    action: JsonObject
    domains: Some[DomainPattern]
    max_purchase: PurchaseLimit | None = None


class UndoBinding(Contract):
    """Takes back what the goal named in the field `of` did, by Remit's own rollback. Only good as a rollback."""

    type: Literal["undo"]


Binding = Annotated[TaskBinding | PlanBinding | SqlBinding | BrowserBinding | UndoBinding, Field(discriminator="type")]


class Simulation(Contract):
    """One thing that the goal door can do. Its digest is what a person promotes."""

    id: Name
    version: Annotated[str, Field(max_length=40, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,39}$")]
    title: Title = Field(description="What the user is asked to confirm; or that by language.")
    impact: Impact
    risk: RiskLevel
    access_action: Name = Field(description="The Cedar action that a user must be allowed.")
    fields: Annotated[dict[FieldName, FieldSpec], Field(max_length=30)] = Field(default_factory=dict)
    phrases: Annotated[dict[LanguageTag, Annotated[Some[Phrase], Field(max_length=50)]], Field(max_length=50)] = Field(
        default_factory=dict, description="How users say it, by language."
    )
    rollback: Name | None = Field(default=None, description="The simulation that takes this one back.")
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_STEP_SECONDS)] = 60
    binding: Binding

    # The canonical form has no order of members, and the first missing field is asked for: so the order is data.
    field_order: Many[FieldName] = Field(default=(), description="The order of the questions; the file's own.")

    @model_validator(mode="before")
    @classmethod
    def _record_order(cls, tree: Any) -> Any:
        if isinstance(tree, dict) and "field_order" not in tree and isinstance(tree.get("fields"), dict):
            return {**tree, "field_order": list(tree["fields"])}
        return tree

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if len(set(self.field_order)) != len(self.field_order) or set(self.field_order) != set(self.fields):
            raise ValueError("field_order must name each field once")
        return self

    @cached_property
    def own_digest(self) -> str:
        """The digest, computed once: a simulation never changes."""
        return self.digest()

    def title_in(self, language_tag: str) -> str:
        return in_language(self.title, language_tag)

    def question_in(self, field_name: str, language_tag: str) -> str:
        return in_language(self.fields[field_name].question, language_tag)

    @property
    def required(self) -> tuple[str, ...]:
        """The fields that must be there, in the order in which they are asked for."""
        return tuple(name for name in self.field_order if not self.fields[name].optional)


class CatalogueFile(Contract):
    """A file of simulations, as people write it."""

    bounds: ClassVar[Bounds] = Bounds(max_bytes=256 << 10, max_items=20_000)

    version: VersionOne
    simulations: Annotated[Some[Simulation], Field(max_length=500)]


class SnapshotEntry(Contract):
    """A simulation as it stood for one tenant."""

    simulation: Simulation
    simulation_digest: Digest = Field(alias="digest")
    state: State


class CatalogueSnapshot(Contract):
    """One tenant's catalogue at one moment, whole: enough to make a decision from it again."""

    version: VersionOne
    tenant_id: Identifier
    simulations: Many[SnapshotEntry]


class StatePayload(Contract):
    """What the ledger says when a person promotes or retires a simulation."""

    simulation_id: Name
    version: Annotated[str, Field(max_length=40)]
    simulation_digest: Digest = Field(alias="digest")
    state: Literal["ACTIVE", "RETIRED"]
    reason: ShortText | None = None
