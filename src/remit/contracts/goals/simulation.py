"""Simulations: the actions that users can ask for, their fields, and the one action that each is bound to. Models only.

A simulation is a definition: one task, plan, query or browser action, with placeholders that are filled with typed
values. People write the files. `remit.goals.catalogue.catalogue` has the rules between several simulations.
"""

from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from remit.contracts.base import (
    Contract,
    Digest,
    ExtendedContract,
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
from remit.contracts.goals.goal import LanguageTag, StepRetryPolicy
from remit.contracts.goals.localised_text import Question, Title, in_language
from remit.contracts.goals.packets import MAX_STEPS
from remit.parsing import Bounds

Impact = Literal["read_only", "impactful", "side_effecting", "irreversible"]
State = Literal["DRAFT", "ACTIVE", "RETIRED"]

MAX_STEP_SECONDS: Final = 300
UNDOES: Final = "of"
"""The field of a simulation that rolls another one back. Its value is the correlation id of the goal."""

FieldName = Annotated[str, Field(max_length=40, pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""The name of a field. It is also a placeholder in phrases and actions: `{order_id}`."""

Pattern = Annotated[str, Field(min_length=1, max_length=500)]
"""A pattern in the syntax of RE2, for the whole value."""

Phrase = Annotated[str, Field(min_length=1, max_length=300)]
Currency = Annotated[str, Field(max_length=3, pattern=r"^[A-Z]{3}$")]
Whole = Annotated[int, Field(ge=-999_999_999_999_999, le=999_999_999_999_999)]


class _AnyField(Contract):
    question: Question = Field(
        description="The question if the value is missing, word for word: one text, or one for each language."
    )
    optional: bool = Field(default=False, description="If true, Remit does not ask for it when it is missing.")


class TextField(_AnyField):
    """A text on one line."""

    type: Literal["text"]
    max_length: Annotated[int, Field(ge=1, le=1_000)] = 200
    pattern: Pattern | None = Field(default=None, description="A pattern of RE2 that the whole text must match.")


class IdentifierField(_AnyField):
    """An identifier: a letter or digit, then letters, digits and `_ . -`, at most 100 characters."""

    type: Literal["identifier"]
    pattern: Pattern | None = Field(default=None, description="A pattern of RE2 that the whole identifier must match.")


class IntegerField(_AnyField):
    """A whole number."""

    type: Literal["integer"]
    minimum: Whole | None = None
    maximum: Whole | None = None

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.minimum is not None and self.maximum is not None and self.maximum < self.minimum:
            raise ValueError("maximum must not be below minimum")
        return self


class AmountField(_AnyField):
    """An amount of money: a decimal as text, and a currency code of ISO 4217."""

    type: Literal["amount"]
    currencies: Annotated[Many[Currency], Field(max_length=50)] = Field(
        default=(), description="The accepted currencies. An empty list accepts all."
    )


class DateField(_AnyField):
    """A day, such as 2026-01-31."""

    type: Literal["date"]


class EmailField(_AnyField):
    """An e-mail address."""

    type: Literal["email"]


class ChoiceField(_AnyField):
    """One of several choices, in any case. The value is the choice as it is written in the file."""

    type: Literal["choice"]
    choices: Annotated[Some[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=50)]


class PathField(_AnyField):
    """A path below the root, without `..` and `//`. It is not absolute."""

    type: Literal["path"]


FieldSpec = Annotated[
    TextField | IdentifierField | IntegerField | AmountField | DateField | EmailField | ChoiceField | PathField,
    Field(discriminator="type"),
]


class TaskBinding(Contract):
    """A task. The id of its manifest is made when it is dispatched."""

    type: Literal["task"]
    capability_id: Identifier
    inputs: JsonObject
    reversible: bool = True


class PlanBinding(Contract):
    """A plan without its id. The template is written here, or in a file of its own that the loader reads."""

    type: Literal["plan"]
    template: JsonObject | None = None
    template_file: RelativePath | None = None

    @model_validator(mode="after")
    def _check_one_template(self) -> Self:
        if (self.template is None) == (self.template_file is None):
            raise ValueError("give either template or template_file")
        return self


class SqlBinding(Contract):
    """One query with bound parameters. It becomes a plan with one SQL action."""

    type: Literal["sql"]
    connection: Name
    query: Annotated[str, Field(min_length=1, max_length=20_000)]
    parameters: JsonObject = Field(default_factory=dict)
    description: ShortText = ""
    expect_results: bool = False
    save_results_to: RelativePath | None = None
    reversible: bool = True


class BrowserBinding(Contract):
    """One browser action without its id, and the limits of its token."""

    type: Literal["browser"]
    action: JsonObject
    domains: Some[DomainPattern]
    max_purchase: PurchaseLimit | None = None


class UndoBinding(Contract):
    """Rolls back the goal named in the field `of`, with Remit's own rollback. It can only be used as a rollback."""

    type: Literal["undo"]


StepValue = Annotated[str, Field(max_length=1_000)] | Annotated[int, Field(ge=-(10**15), le=10**15)]
"""`{field}` is a field of the goal, `{step.output}` an output of an earlier step. Any other value is used as it is."""


class CompositeStep(Contract):
    """One step of a composite simulation: the simulation that it runs, and the values of that simulation's fields."""

    id: Annotated[str, Field(max_length=40, pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    simulation: Name
    fields: Annotated[dict[FieldName, StepValue], Field(max_length=30)] = Field(default_factory=dict)
    depends_on: Annotated[Many[FieldName], Field(max_length=MAX_STEPS)] | None = Field(
        default=None, description="The steps that must have succeeded. Without it, this is the step before."
    )
    retry: StepRetryPolicy | None = None
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_STEP_SECONDS)] | None = Field(
        default=None, description="A shorter time limit than that of the simulation."
    )


class CompositeBinding(Contract):
    """Several simulations in a fixed order. If a step fails, Remit rolls back the completed steps in reverse order."""

    type: Literal["composite"]
    steps: Annotated[Some[CompositeStep], Field(max_length=MAX_STEPS)]
    keep: bool = Field(
        default=False,
        description="If true, completed steps stay when a person refuses a later step or does not answer in time.",
    )


Binding = Annotated[
    TaskBinding | PlanBinding | SqlBinding | BrowserBinding | UndoBinding | CompositeBinding,
    Field(discriminator="type"),
]


class OutputSpec(Contract):
    """A value that a completed action gives to later steps of a composite simulation."""

    type: Literal["text", "identifier", "integer", "amount", "date", "email", "path"]
    source: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        description="For a query, the column of its first row. For a task, source_path or destination_path."
    )


class Simulation(ExtendedContract):
    """One action that users can ask for. A person promotes it by its digest."""

    added_later: ClassVar[frozenset[str]] = frozenset({"outputs"})

    id: Name
    version: Annotated[str, Field(max_length=40, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,39}$")]
    title: Title = Field(description="The text that the user is asked to confirm: one text, or one for each language.")
    impact: Impact
    risk: RiskLevel
    access_action: Name = Field(description="The Cedar action that a policy must permit.")
    fields: Annotated[dict[FieldName, FieldSpec], Field(max_length=30)] = Field(default_factory=dict)
    phrases: Annotated[dict[LanguageTag, Annotated[Some[Phrase], Field(max_length=50)]], Field(max_length=50)] = Field(
        default_factory=dict, description="How users ask for it, by language."
    )
    rollback: Name | None = Field(default=None, description="The simulation that rolls this one back.")
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_STEP_SECONDS)] = 60
    binding: Binding
    outputs: Annotated[dict[FieldName, OutputSpec], Field(max_length=10)] = Field(
        default_factory=dict, description="Values that later steps of a composite simulation can use."
    )

    # The canonical form has no order of members, and Remit asks for the first missing field. So the order is data.
    field_order: Many[FieldName] = Field(default=(), description="The order of the questions: the file's.")

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
        """The digest. It is computed once, because a simulation never changes."""
        return self.digest()

    def title_in(self, language_tag: str) -> str:
        return in_language(self.title, language_tag)

    def question_in(self, field_name: str, language_tag: str) -> str:
        return in_language(self.fields[field_name].question, language_tag)

    @property
    def required(self) -> tuple[str, ...]:
        """The required fields, in the order in which Remit asks for them."""
        return tuple(name for name in self.field_order if not self.fields[name].optional)


class CatalogueFile(Contract):
    """A file of simulations, written by people."""

    bounds: ClassVar[Bounds] = Bounds(max_bytes=256 << 10, max_items=20_000)

    version: VersionOne
    simulations: Annotated[Some[Simulation], Field(max_length=500)]


class SnapshotEntry(Contract):
    """A simulation with its state for one tenant, at the time of a snapshot."""

    simulation: Simulation
    simulation_digest: Digest = Field(alias="digest")
    state: State


class CatalogueSnapshot(Contract):
    """The whole catalogue of one tenant at one moment. A decision can be made from it again."""

    version: VersionOne
    tenant_id: Identifier
    simulations: Many[SnapshotEntry]


class StatePayload(Contract):
    """The payload of the ledger entry about a person who promotes or retires a simulation."""

    simulation_id: Name
    version: Annotated[str, Field(max_length=40)]
    simulation_digest: Digest = Field(alias="digest")
    state: Literal["ACTIVE", "RETIRED"]
    reason: ShortText | None = None
