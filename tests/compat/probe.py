"""What users meet of the Remit on this process's path, as one JSON document: a program, run once for each version.

It runs under old versions too, so it imports nothing of Remit by a fixed place: a name is looked up in whichever module
of the tree defines it. Each surface is a mapping from what a user can name to what Remit says of it. Wording is left
out: help texts, descriptions and messages may be rewritten.
"""

import ast
import contextlib
import hashlib
import importlib
import io
import json
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

Surface = dict[str, Any]

REMIT: Final = Path(importlib.import_module("remit").__file__ or "").parent
# Names that were given in the move, beside those that they have here.
EARLIER: Final = {
    "Services": "Desk",
    "SERVICE_CAPABILITIES": "DOOR_CAPABILITIES",
    "build_document": "document",
    "list_metrics": "known_metrics",
    "UnicodeText": "RealText",
}
WORDING: Final = frozenset({"description", "title", "summary", "help", "short_help", "epilog"})
_DOTTED: Final = re.compile(r"(\{\}|[a-z_]+)(\.(\{\}|[a-z_]+))+")
_FILE: Final = re.compile(
    r".*\.(html|json|js|txt|py|yaml|yml|toml|pem|jsonl|png|bak|sock|lock|log|duckdb|cedar|key|anchor|bell)"
)
_VARIABLE: Final = re.compile(r"(REMIT|OTEL)_[A-Z_]*[A-Z]")


def main() -> None:
    found: dict[str, Surface] = {}
    with tempfile.TemporaryDirectory(prefix="remit-compat-") as folder, contextlib.chdir(folder):
        os.environ["REMIT_STATE"] = f"{folder}/state"
        for name, collect in SURFACES.items():
            found[name] = collect()
    json.dump(found, sys.stdout, sort_keys=True, default=_as_json)


# --- finding things in a tree whose layout is not known -------------------------------------------------------------


@cache
def _trees() -> dict[str, ast.Module]:
    """Every module by its dotted name."""
    trees = {}
    for path in sorted(REMIT.rglob("*.py")):
        parts = path.relative_to(REMIT.parent).with_suffix("").parts
        trees[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


@cache
def _definitions() -> dict[str, list[str]]:
    """The modules that define each name at their top level."""
    found: dict[str, list[str]] = {}
    for module, tree in _trees().items():
        for node in tree.body:
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found.setdefault(name, []).append(module)
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    found.setdefault(name, []).append(module)
                case _:
                    pass
    return found


def _find(name: str, beside: str = "") -> Any:
    """The object that one module defines under this name; `beside`: another name that the same module defines."""
    wanted = name if name in _definitions() else EARLIER.get(name, name)
    modules = [each for each in _definitions()[wanted] if not beside or each in _definitions()[beside]]
    if len(modules) != 1:
        raise LookupError(f"{wanted} is defined in {modules}: one module was expected")
    return getattr(importlib.import_module(modules[0]), wanted)


def _strings() -> Iterator[tuple[str, str]]:
    """Each string in the code with its module; what is filled in at run time is shown as {}."""
    for module, tree in _trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield module, node.value
            elif isinstance(node, ast.JoinedStr):
                parts = (str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
                yield module, "".join(parts)


def _without_wording(node: Any, *, names: bool = False) -> Any:
    """`names`: the keys of this object are names that Remit gave, and not words of JSON Schema or OpenAPI."""
    if isinstance(node, list):
        return [_without_wording(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_wording(value, names=not names and key in {"properties", "$defs", "schemas", "parameters"})
        for key, value in node.items()
        if names or key not in WORDING or not isinstance(value, str)
    }


def _as_json(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return repr(value) if value is None or isinstance(value, (bytes, range)) else str(value)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


# --- the surfaces ---------------------------------------------------------------------------------------------------


def _ran(*words: str) -> Any:
    """What `remit WORDS` prints, as JSON."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        importlib.import_module("remit.cli").main([*words], prog_name="remit")
    return json.loads(printed.getvalue())


def _schemas() -> Surface:
    names = [each["name"] for each in _ran("schema", "--json")]
    return {name: _without_wording(_ran("schema", name)) for name in names}


def _commands() -> Surface:
    import click  # noqa: PLC0415 - an old version's is as good, but a broken one shall fail here and not at the start

    root = importlib.import_module("remit.cli").main
    found: Surface = {}

    def walk(command: click.Command, path: str) -> None:
        found[path] = {"hidden": command.hidden, "settings": command.context_settings}
        for parameter in command.params:
            told = parameter.to_info_dict()
            kind = told["type"]["param_type"]
            told["type"]["param_type"] = EARLIER.get(kind, kind)
            name = "/".join([*told["opts"], *told["secondary_opts"]])
            about = {key: value for key, value in told.items() if key not in WORDING}
            found[f"{path} {name}"] = json.loads(json.dumps(about, sort_keys=True, default=_as_default))
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=path)
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                walk(below, f"{path} {name}")

    walk(root, "remit")
    return found


def _as_default(value: Any) -> str:
    """A default that is no JSON: a path, a time, or a function that makes one."""
    return "(made when it runs)" if callable(value) else re.sub(r" at 0x[0-9a-f]+|<[^>]*>", "", str(value))


def _openapi() -> Surface:
    create, open_workspace = _find("initialise"), importlib.import_module("remit").Workspace.open
    root = Path("project")
    root.mkdir()
    create(root.resolve(), os.environ, _find("system_clock"))[0].close()
    with open_workspace(root.resolve(), environ=os.environ) as workspace:
        settings = _find("WebSettings").of(workspace.config.web).listening_at(8080)
        desk = _find("Services")(workspace, console_url=settings.url)
        app = _find("build_app")(desk, settings)
        tree: Surface = _without_wording(_find("build_document", beside="operation")(app))
        tree["routes"] = {
            f"{method} {path}": True
            for path, route in _routes(app.routes)
            for method in sorted(getattr(route, "methods", None) or ["any"])
        }
        desk.close()
    return tree


def _routes(routes: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Those of the console too, which the document does not show."""
    for each in routes:
        below = getattr(each, "routes", None) or getattr(getattr(each, "original_router", None), "routes", None)
        path = above + getattr(each, "path", "")
        if below:
            yield from _routes(below, path)
        elif path:
            yield path, each


def _dotted() -> Surface:
    """Whatever is written like the kind of a ledger entry: capabilities and addresses of settings are among it."""
    points = _find("FAULT_POINTS")
    written = {text for _, text in _strings() if _DOTTED.fullmatch(text)}
    return {text: True for text in written - points if not text.startswith("remit.") and not _FILE.fullmatch(text)}


def _tables() -> Surface:
    found: Surface = {}
    folder = REMIT / "store" / "migrations"
    database = sqlite3.connect(":memory:")
    for path in sorted(folder.glob("*.sql")):
        raw = path.read_bytes()
        found[f"migration {path.name}"] = _digest(raw)  # a store refuses one that differs from what it applied
        if path.name.endswith(".sqlite.sql"):
            for statement in raw.decode().split("\n--;;\n"):
                database.executescript(statement)
    for kind, name, table, text in database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        found[f"sqlite {kind} {table} {name}"] = _digest((text or "").encode())
        if kind == "table":
            for _, column, *about in database.execute(f"PRAGMA table_info({name})"):
                found[f"sqlite column {name}.{column}"] = about
    shape = json.loads((REMIT / "store" / "shape.postgresql.json").read_bytes())
    return found | {f"postgresql {name}": about for name, about in shape.items()}


def _metrics() -> Surface:
    return {each.name: [each.kind, sorted(each.labels)] for each in _find("list_metrics")()}


def _reasons() -> Surface:
    reasons = _find("Reason", beside="TASK_CODES")
    plan_error, goal_code, task_code = _find("plan_error"), _find("goal_code"), _find("task_code")
    browser_error = _find("browser_error")
    errors = importlib.import_module(_definitions()["TASK_CODES"][0])
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and hasattr(each, "exit_code")]
    refused = next(each for each in kinds if each.__name__.startswith("Refused"))
    found: Surface = {}
    for reason in reasons:
        plan = plan_error(reason)
        at_browser = browser_error(refused(reason, "what", where="browser.click")).code
        found[reason.value] = {
            "name": reason.name,
            "task": task_code(reason),
            "plan": [plan.code, plan.kind],
            "goal": goal_code(reason),
            "browser": at_browser,
        }
    return found | {f"goal {code}": True for code in _find("USER_TEXT")}


def _exit_codes() -> Surface:
    """Of the kinds of error, and of commands that do nothing."""
    errors = importlib.import_module(_definitions()["TASK_CODES"][0])
    named = [each for each in vars(errors).values() if isinstance(each, type) and hasattr(each, "exit_code")]
    codes = sorted(each.exit_code for each in named)
    root = importlib.import_module("remit.cli").main
    found: Surface = {"errors": codes}
    for line in ("", "--help", "--version", "no-such", "schema no-such", "ledger verify", "runs"):
        words = line.split()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                root(words, prog_name="remit")
            except SystemExit as ended:
                found[f"remit {line}".rstrip()] = ended.code
    return found


def _settings() -> Surface:
    schema = _without_wording(_ran("schema", "system-config"))
    defs = schema.get("$defs", {})
    found: Surface = {}

    def walk(node: dict[str, Any], path: str, above: tuple[str, ...]) -> None:
        for each in [node, *node.get("anyOf", []), *node.get("oneOf", [])]:
            reference = each.get("$ref", "").removeprefix("#/$defs/")
            target = defs.get(reference, each)
            if reference in above:
                continue
            inside = (*above, reference) if reference else above
            for name, below in target.get("properties", {}).items():
                about = {key: value for key, value in below.items() if key in {"default", "type", "minimum", "maximum"}}
                if f"{path}{name}" in found:  # each kind of a connection has the field
                    continue
                found[f"{path}{name}"] = about | {"required": name in target.get("required", [])}
                walk(below, f"{path}{name}.", inside)
            further = [target.get("additionalProperties"), target.get("items")]
            for below in (*further, *target.get("patternProperties", {}).values()):
                if isinstance(below, dict):
                    walk(below, f"{path}*.", inside)

    walk(schema, "", ())
    return found


def _variables() -> Surface:
    """By their names, and by where they are read: `environ.get("LANG")`, `environ["LANG"]`."""
    found = {text: True for _, text in _strings() if _VARIABLE.fullmatch(text)}
    for tree in _trees().values():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=value, attr="get"), args=[ast.Constant(value=str(name)), *_]):
                    read = ast.unparse(value)
                case ast.Subscript(value=value, slice=ast.Constant(value=str(name))):
                    read = ast.unparse(value)
                case _:
                    continue
            if read.endswith(("environ", "environment")):
                found[name] = True
    return found


def _capabilities() -> Surface:
    browser, doors = _find("BROWSER_CAPABILITIES"), _find("SERVICE_CAPABILITIES")
    found: Surface = {f"token {name}": True for name in (*browser, *doors)}
    pattern = _find("CALL_NAME")
    found["token call.NAME"] = f"{_find('CALL')}{pattern}"
    for each in _declared():
        found[f"task {each.capability_id}"] = {
            "executor": each.executor_id,
            "inputs": _without_wording(each.inputs.model_json_schema()),
            "output": _without_wording(each.output.model_json_schema()),
            "paths": {name: use.value for name, use in each.paths.items()},
            "snapshot": each.snapshot,
            "restores": each.restores,
            "must_be_reversible": each.must_be_reversible,
            "network": each.network,
        }
    return found


def _declared() -> list[Any]:
    """Every capability of tasks: the constants of the modules that declare them."""
    kind = _find("Capability", beside="Registry")
    found: dict[str, Any] = {}
    for name in ("CAPABILITY", "CAPABILITIES"):
        for module in _definitions()[name]:
            value = getattr(importlib.import_module(module), name)
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, kind):
                    found[each.capability_id] = each
    return list(found.values())


def _mcp() -> Surface:
    """As a client is given them by `tools/list`."""
    server = importlib.import_module("remit.mcp_server.server")
    built = [(spec.build if hasattr(spec, "build") else spec.built)(None) for spec in server.TOOLS]
    found: Surface = {}
    for tool in built:
        found[tool.name] = {
            "input": _without_wording(tool.parameters),
            "output": _without_wording(tool.output_schema),
            "hints": _without_wording(tool.annotations.model_dump()) if tool.annotations else None,
        }
    return found


def _state_files() -> Surface:
    """What the state directory has names for, and what `remit init` makes in it."""
    directory = _find("StateDirectory")
    here = directory(Path("/state"))
    named = [name for name, value in vars(directory).items() if isinstance(value, property)]
    found: Surface = {f"named {getattr(here, name).relative_to('/state')}": True for name in named}
    root = Path("beside")
    root.mkdir()
    before = set(Path("state").iterdir()) if Path("state").exists() else set()
    _find("initialise")(root.resolve(), os.environ, _find("system_clock"))[0].close()
    [made] = set(Path("state").iterdir()) - before
    for path in sorted(made.rglob("*")):
        name = re.sub(r"[0-9a-f]{16,}|[\w-]{43}", "ID", str(path.relative_to(made)))
        found[f"made {name}"] = oct(path.stat().st_mode & 0o777)
    return found


def _loggers() -> Surface:
    found: Surface = {}
    for module, tree in _trees().items():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(attr="getLogger"), args=[ast.Constant(value=str(name))]):
                    found[name] = True
                case ast.Call(func=ast.Attribute(attr="getLogger"), args=[ast.Name(id="__name__")]):
                    found[module] = True
                case _:
                    pass
    return found


def _fault_points() -> Surface:
    return dict.fromkeys(_find("FAULT_POINTS"), True)


def _public_names() -> Surface:
    """What `remit` and `remit.errors` offer by name: the two modules that programs are told to import from."""
    found: Surface = {f"remit.{name}": True for name in importlib.import_module("remit").__all__}
    errors = importlib.import_module("remit.errors")
    caught = [name for name, each in vars(errors).items() if getattr(each, "__module__", "").startswith("remit.")]
    return found | {f"remit.errors.{name}": True for name in caught if name[0].isupper()}


SURFACES: Final[dict[str, Callable[[], Surface]]] = {
    "schemas": _schemas,
    "openapi": _openapi,
    "commands": _commands,
    "dotted names": _dotted,
    "tables": _tables,
    "metrics": _metrics,
    "reasons": _reasons,
    "exit codes": _exit_codes,
    "settings": _settings,
    "environment variables": _variables,
    "capabilities": _capabilities,
    "mcp tools": _mcp,
    "state files": _state_files,
    "loggers": _loggers,
    "fault points": _fault_points,
    "public names": _public_names,
}

if __name__ == "__main__":
    main()
