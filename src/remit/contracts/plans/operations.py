"""The operations that an action of a plan can do. `type` names the operation.

A plan may write the parameters beside `type` or under `details`. Both mean the same, and the second form is converted
to the first, so that one meaning has one digest. An operation with both forms is unclear, and refused.
"""

import binascii
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError

from remit.contracts.base import Contract, JsonData, JsonObject, LongText, Name, RelativePath


def _check_base64(text: str) -> str:
    try:
        binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except ValueError:
        raise ValueError("this must be base64 (RFC 4648, with padding, on one line)") from None
    return text


Base64Text = Annotated[LongText, AfterValidator(_check_base64)]

FileMode = Literal["0644", "0755"]

LineNumber = Annotated[int, Field(ge=1, le=10_000_000)]

JsonPath = Annotated[str, Field(min_length=1, max_length=1_000)]
"""A JSONPath (RFC 9535). It must select exactly one node. This is checked when it is applied."""

PropertyKey = Annotated[str, Field(max_length=200)]


class Operation(Contract):
    """The base of all operations."""

    @model_validator(mode="before")
    @classmethod
    def _flatten_details(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "details" not in value:
            return value
        details = value["details"]
        if not isinstance(details, dict):
            raise PydanticCustomError("details_type", "details must be an object")
        if set(value) != {"type", "details"} or "type" in details or "details" in details:
            raise PydanticCustomError("details_unclear", "give parameters beside `type` or under `details`, not both")
        return {"type": value["type"], **details}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        direct = handler.resolve_ref_schema(handler(core))
        parameters = {name: rule for name, rule in direct["properties"].items() if name != "type"}
        details: dict[str, Any] = {"type": "object", "properties": parameters, "additionalProperties": False}
        details["required"] = [name for name in direct["required"] if name != "type"]
        under = {
            "type": "object",
            "properties": {"type": direct["properties"]["type"], "details": details},
            "required": ["type", "details"],
            "additionalProperties": False,
        }
        return {"anyOf": [direct, under]}


class ContentOperation(Operation):
    """The base of operations with the content of a whole file: either as text, or as bytes in base64."""

    content: LongText | None = None
    content_base64: Base64Text | None = None
    mode: FileMode | None = None

    @model_validator(mode="after")
    def _check_one_content(self) -> Self:
        if (self.content is None) == (self.content_base64 is None):
            raise ValueError("give either content or content_base64, not both")
        return self


class WriteFile(ContentOperation):
    """FILE_CREATE. The mode is 0644 unless given."""

    type: Literal["write"]


class ReplaceContent(ContentOperation):
    """FILE_MODIFY: replaces the whole content. The mode stays unless given."""

    type: Literal["replace_content"]


class DeleteFile(Operation):
    """FILE_DELETE."""

    type: Literal["delete"]


class RenameFile(Operation):
    """FILE_RENAME: `target` becomes `new_path`, which must not exist."""

    type: Literal["rename"]
    new_path: RelativePath


class TextReplace(Operation):
    """FILE_MODIFY: replaces a literal text, or with `regex` a pattern without backtracking. No match is a failure."""

    type: Literal["text_replace"]
    pattern: Annotated[str, Field(min_length=1, max_length=100_000)]
    replacement: LongText
    regex: bool = False
    count: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class LineInsert(Operation):
    """FILE_MODIFY: inserts before the line with this number. The first line is 1. One past the last appends."""

    type: Literal["line_insert"]
    line_number: LineNumber
    content: LongText


class LineDelete(Operation):
    """FILE_MODIFY: deletes the lines from the first to the last number, both included. The first line is 1."""

    type: Literal["line_delete"]
    start_line: LineNumber
    end_line: LineNumber

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.end_line < self.start_line:
            raise ValueError("end_line must not come before start_line")
        return self


class JsonAddProperty(Operation):
    type: Literal["json_add_property"]
    path: JsonPath
    key: PropertyKey
    value: JsonData


class JsonRemoveProperty(Operation):
    type: Literal["json_remove_property"]
    path: JsonPath
    key: PropertyKey


class JsonUpdateValue(Operation):
    type: Literal["json_update_value"]
    path: JsonPath
    value: JsonData


class YamlUpdate(Operation):
    type: Literal["yaml_update"]
    path: JsonPath
    value: JsonData


class SqlExecute(Operation):
    """SQL_EXECUTE: runs a query file, or the given query. Parameters are bound, never inserted into the text."""

    type: Literal["sql_execute"]
    query_file: RelativePath | None = None
    query: Annotated[str, Field(min_length=1, max_length=1_000_000)] | None = None
    parameters: JsonObject = Field(default_factory=dict)
    connection: Name = "duckdb"
    expect_results: bool = False
    save_results_to: RelativePath | None = None

    @model_validator(mode="after")
    def _check_one_query(self) -> Self:
        if (self.query_file is None) == (self.query is None):
            raise ValueError("give either query_file or query, not both")
        return self


class PipelineRun(Operation):
    """PIPELINE_RUN: runs a pipeline that the configuration registers under this name."""

    type: Literal["pipeline_run"]
    pipeline: Name
    parameters: JsonObject = Field(default_factory=dict)


SchemaOperation = Annotated[
    JsonAddProperty | JsonRemoveProperty | JsonUpdateValue | YamlUpdate, Field(discriminator="type")
]

ModifyOperation = Annotated[
    TextReplace
    | LineInsert
    | LineDelete
    | JsonAddProperty
    | JsonRemoveProperty
    | JsonUpdateValue
    | YamlUpdate
    | ReplaceContent,
    Field(discriminator="type"),
]
