"""The types of fields: the valid JSON values, how a value is read from a text, and how it is written into one. Pure.

A value has only one form, so the same request always has the same fingerprint. For example, an amount is
`{"value": "12.50", "currency": "EUR"}`, with two decimals, and never a floating-point number.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final

import re2  # type: ignore[import-untyped]
from pydantic import JsonValue

from remit.contracts.goals.simulation import (
    AmountField,
    ChoiceField,
    DateField,
    EmailField,
    FieldSpec,
    IdentifierField,
    IntegerField,
    PathField,
    Simulation,
    TextField,
)
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError
from remit.goals.binding.tokenizer import is_readable, read

_MAX_PATH: Final = 500
_MAX_EMAIL: Final = 254
_MAX_PATTERN_MEMORY: Final = 1 << 20
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,15}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EMAIL: Final = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}")
_DECIMAL: Final = re.compile(r"(?:0|[1-9][0-9]{0,11})\.[0-9]{2}")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_NO_MATCH: Final = "this does not match the field's pattern"
_WITH_PATTERN: Final = (TextField, IdentifierField)
_MAX_LISTED_CHOICES: Final = 10
# A comma before one or two digits can only be a decimal comma. `1,250` is ambiguous and is not accepted.
_NUMBER: Final = r"(?P<number>[0-9]{1,12}(?:[.,][0-9]{1,2})?)"
_AMOUNT: Final = (
    re.compile(rf"{_NUMBER} ?(?P<code>[A-Za-z]{{3}}|[€£$¥₹])"),
    re.compile(rf"(?P<code>[A-Za-z]{{3}}|[€£$¥₹]) ?{_NUMBER}"),
)
_SYMBOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "€": ("EUR",),
    "£": ("GBP",),
    "₹": ("INR",),
    "$": ("USD", "CAD", "AUD", "NZD", "MXN", "SGD", "HKD"),
    "¥": ("JPY", "CNY"),
}


def problem_with(spec: FieldSpec, value: JsonValue) -> str:
    """Say why the value is invalid for the field. Empty if it is valid. Never repeats the value."""
    return _CHECKS[type(spec)](spec, value)


def read_text(spec: FieldSpec, text: str) -> JsonValue:
    """Read the whole text as a value, in the form that `problem_with` expects. None if it is not a valid value."""
    plain = read(text).text
    value = _READERS[type(spec)](spec, plain)
    return None if value is None or problem_with(spec, value) else value


def explain_invalid(spec: FieldSpec, text: str) -> str:
    """Say why the text is not a value of the field, for its author. `this` means the text. Empty if it is valid."""
    value = _READERS[type(spec)](spec, read(text).text)
    if value is None:
        return _explain_unread(spec)
    problem = problem_with(spec, value)
    return f"{problem}: {spec.pattern}" if problem == _NO_MATCH and isinstance(spec, _WITH_PATTERN) else problem


def render_value(value: JsonValue) -> str:
    """Return the form of a value inside a longer text."""
    if isinstance(value, dict):
        return f"{value['value']} {value['currency']}"
    return value if isinstance(value, str) else str(value)


def fingerprint(fields: Mapping[str, JsonValue]) -> str:
    return digest(dict(fields))


def require_fields(simulation: Simulation, fields: Mapping[str, JsonValue]) -> None:
    """Require every required field, valid values and no other fields. The refusal names the first problem."""
    for name in sorted(fields):
        if name not in simulation.fields:
            raise _refused(simulation, name[:40], "the simulation has no such field", "Remove the field.")
    for name in simulation.field_order:
        if name not in fields:
            if simulation.fields[name].optional:
                continue
            raise _refused(simulation, name, "a required field is missing", "Add the field.")
        problem = problem_with(simulation.fields[name], fields[name])
        if problem:
            raise _refused(simulation, name, problem, "Give another value.")


def compile_pattern(pattern: str) -> Any:
    """Compile a pattern with RE2, which does not backtrack. Raises ValueError with RE2's text if it is invalid."""
    options = re2.Options()
    options.log_errors = False  # it would write to standard error
    options.max_mem = _MAX_PATTERN_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as problem:
        message = problem.args[0] if problem.args else ""
        raise ValueError(message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)) from None


# --- checks ---------------------------------------------------------------------------------------------------------


def _check_text(spec: Any, value: JsonValue) -> str:
    if not isinstance(value, str) or not value.strip():
        return "this must be a text with at least one visible character"
    if len(value) > spec.max_length:
        return f"this may have at most {spec.max_length} characters"
    if not is_readable(value) or set(value) & set("\t\n\r"):
        return "this must be one line without control characters"
    return _check_pattern(spec, value)


def _check_identifier(spec: Any, value: JsonValue) -> str:
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        return "this must be a letter or digit, then letters, digits and _ . -, at most 100 in all"
    return _check_pattern(spec, value)


def _check_pattern(spec: Any, value: str) -> str:
    matches = spec.pattern is None or compile_pattern(spec.pattern).fullmatch(value) is not None
    return "" if matches else _NO_MATCH


def _check_integer(spec: Any, value: JsonValue) -> str:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 999_999_999_999_999:
        return "this must be a whole number of at most 15 digits"
    if spec.minimum is not None and value < spec.minimum:
        return f"this must be {spec.minimum} or more"
    if spec.maximum is not None and value > spec.maximum:
        return f"this must be {spec.maximum} or less"
    return ""


def _check_amount(spec: Any, value: JsonValue) -> str:
    if not isinstance(value, dict) or set(value) != {"value", "currency"}:
        return "this must be an object with value and currency"
    number, currency = value["value"], value["currency"]
    if not isinstance(number, str) or not _DECIMAL.fullmatch(number):
        return "the value must be a text with two decimals, such as 12.50"
    if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
        return "the currency must be three capital letters"
    if spec.currencies and currency not in spec.currencies:
        return f"the currency must be {' or '.join(spec.currencies)}"
    return ""


def _check_date(_spec: Any, value: JsonValue) -> str:
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            date.fromisoformat(value)
            return ""
    except ValueError:
        pass
    return "this must be a date, such as 2026-01-31"


def _check_email(_spec: Any, value: JsonValue) -> str:
    matches = isinstance(value, str) and len(value) <= _MAX_EMAIL and _EMAIL.fullmatch(value)
    return "" if matches and ".." not in str(value) else "this must be an email address"


def _check_choice(spec: Any, value: JsonValue) -> str:
    return "" if isinstance(value, str) and value in spec.choices else "this must be one of the choices"


def _check_path(_spec: Any, value: JsonValue) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_PATH or not is_readable(value):
        return f"this must be a path of at most {_MAX_PATH} characters"
    if set(value) & set("\\\t\n\r") or value.endswith("/"):
        return "this must be the path of a file, with / between folders"
    if any(part in {"", ".", ".."} for part in value.split("/")):
        return "this must be a path below the root, without . and .."
    return ""


# --- reading from a text --------------------------------------------------------------------------------------------


def _read_plain(_spec: Any, text: str) -> JsonValue:
    return text or None


def _read_integer(_spec: Any, text: str) -> JsonValue:
    return int(text) if _INTEGER.fullmatch(text) else None


def _read_amount(spec: Any, text: str) -> JsonValue:
    found = next((match for form in _AMOUNT if (match := form.fullmatch(text))), None)
    if found is None:
        return None
    currency = _currency(found["code"], spec.currencies)
    whole, _, cents = found["number"].replace(",", ".").partition(".")
    return {"value": f"{int(whole)}.{cents:0<2}", "currency": currency} if currency else None


def _currency(code: str, allowed: tuple[str, ...]) -> str:
    """Return the currency of a sign. If several have this sign, the field must allow exactly one of them."""
    if code not in _SYMBOLS:
        return code.upper()
    candidates = _SYMBOLS[code]
    matching = [each for each in candidates if each in allowed] if len(candidates) > 1 else list(candidates)
    return matching[0] if len(matching) == 1 else ""


def _read_choice(spec: Any, text: str) -> JsonValue:
    wanted = read(text).folded
    matching = [choice for choice in spec.choices if read(choice).folded == wanted]
    return matching[0] if len(matching) == 1 else None


def _explain_unread(spec: FieldSpec) -> str:
    if isinstance(spec, ChoiceField):
        more = ", ..." if len(spec.choices) > _MAX_LISTED_CHOICES else ""
        return f"this is not one of: {', '.join(spec.choices[:_MAX_LISTED_CHOICES])}{more}"
    if isinstance(spec, AmountField):
        return f"this is not an amount with its currency, such as 12.50 {(*spec.currencies, 'EUR')[0]}"
    return "this is not a whole number of at most 15 digits" if isinstance(spec, IntegerField) else "this is empty"


_CHECKS: Final[dict[type, Callable[[Any, JsonValue], str]]] = {
    TextField: _check_text,
    IdentifierField: _check_identifier,
    IntegerField: _check_integer,
    AmountField: _check_amount,
    DateField: _check_date,
    EmailField: _check_email,
    ChoiceField: _check_choice,
    PathField: _check_path,
}
_READERS: Final[dict[type, Callable[[Any, str], JsonValue]]] = {
    TextField: _read_plain,
    IdentifierField: _read_plain,
    IntegerField: _read_integer,
    AmountField: _read_amount,
    DateField: _read_plain,
    EmailField: _read_plain,
    ChoiceField: _read_choice,
    PathField: _read_plain,
}


def _refused(simulation: Simulation, name: str, what: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.MALFORMED, what, where=f"simulation {simulation.id}, field {name}", next_step=next_step)
