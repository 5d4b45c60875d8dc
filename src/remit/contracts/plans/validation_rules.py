"""The rules that are checked after a plan has run. `type` names the rule. If a rule fails, the plan is undone."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from remit.contracts.base import Contract, Digest, JsonData, JsonObject, Many, Name, RelativePath
from remit.contracts.plans.operations import JsonPath


class FileExists(Contract):
    type: Literal["file_exists"]
    path: RelativePath


class FileAbsent(Contract):
    type: Literal["file_absent"]
    path: RelativePath


class FileHash(Contract):
    """The file has exactly these bytes."""

    type: Literal["hash"]
    path: RelativePath
    file_digest: Digest = Field(alias="digest")


class MatchesJsonSchema(Contract):
    """The JSON or YAML file is valid against a schema, which is a file of the project or part of the rule."""

    type: Literal["json_schema"]
    path: RelativePath
    schema_file: RelativePath | None = None
    schema_object: JsonObject | None = Field(default=None, alias="schema")

    @model_validator(mode="after")
    def _check_one_schema(self) -> Self:
        if (self.schema_file is None) == (self.schema_object is None):
            raise ValueError("give either schema_file or schema, not both")
        return self


class JsonPathEquals(Contract):
    """The expression selects exactly one node of the file, and it equals the value."""

    type: Literal["json_path"]
    path: RelativePath
    expression: JsonPath
    expected: JsonData


class SqlExpect(Contract):
    """The query returns exactly these rows in this order. It may only read."""

    type: Literal["sql_expect"]
    query: Annotated[str, Field(min_length=1, max_length=1_000_000)]
    parameters: JsonObject = Field(default_factory=dict)
    connection: Name = "duckdb"
    expected: Many[Many[JsonData]]


ValidationRule = Annotated[
    FileExists | FileAbsent | FileHash | MatchesJsonSchema | JsonPathEquals | SqlExpect, Field(discriminator="type")
]
