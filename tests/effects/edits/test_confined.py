"""What the editors need is loaded with them: once they run, they open no file, load nothing and start nothing."""

import subprocess
import sys

PROGRAM = """
import os, sys
import remit.effects.plans.content_scan, remit.effects.plans.diff
from remit.effects.edits.registry_full import FULL_EDITORS
from remit.effects.edits.json_schema import require_valid_schema
from remit.effects.edits.splice import Edited
from remit.effects.plans.yaml_files import FULL_CHECKS
from remit.core.errors import RefusedError

touched = []
def watch(event, arguments):
    if event.split(".")[0] in {"open", "import", "os", "socket", "subprocess", "ctypes", "glob", "exec", "compile"}:
        touched.append((event, str(arguments[:1])))
sys.addaudithook(watch)

edits = [
    ("text_replace", b"aab", {"pattern": "a", "replacement": "b"}),
    ("text_replace", b"aab", {"pattern": "(a)+", "replacement": "[\\\\1]", "regex": True}),
    ("text_replace", b"aab", {"pattern": "(", "replacement": "", "regex": True}),
    ("line_insert", b"a\\n", {"line_number": 1, "content": "x"}),
    ("line_delete", b"a\\n", {"start_line": 1, "end_line": 1}),
    ("json_add_property", b'{"a": {}}', {"path": "$.a", "key": "k", "value": {"x": [1]}}),
    ("json_remove_property", b'{"a": 1}', {"path": "$", "key": "a"}),
    ("json_update_value", b'[{"a": "x"}]', {"path": "$[?match(@.a, 'x')].a", "value": 1}),
    ("json_update_value", b'{"a"', {"path": "$.a", "value": 1}),
    ("json_update_value", b'{"a": 1}', {"path": "$[", "value": 1}),
    ("yaml_update", b"a: 1\\nb:\\n- x\\n", {"path": "$.b", "value": {"k": "v: w"}}),
    ("yaml_update", b"a: 1\\n", {"path": "$.a", "value": "some text"}),
    ("yaml_update", b"a: [1", {"path": "$.a", "value": 1}),
]
for kind, before, parameters in edits:
    try:
        edited = FULL_EDITORS[kind](before, {"type": kind, **parameters})
    except RefusedError:
        continue
    remit.effects.plans.diff.diff_edit("f", before, edited)
    for name in ("f.json", "f.yaml", "f.toml", "f.csv", "f.py"):
        remit.effects.plans.content_scan.find_in_result(name, edited, 0o644, FULL_CHECKS)
remit.effects.plans.diff.diff_whole("f", b"a\\nb\\nc\\n", b"b\\nx\\nd\\n")
everything = b'token = "abcdefgh1"\\nhttps://a:b@c/?code=1234567890123456 -u a:b bearer abc123456 "kty" "d": "x"\\n'
remit.effects.plans.content_scan.find_in_result("f.py", Edited(everything, None, ""), 0o644)
require_valid_schema(b'{"type": "object"}', "json_update_value")
try:
    require_valid_schema(b'{"$schema": "https://example.invalid/x"}', "json_update_value")
except RefusedError:
    pass
print(touched, len(os.listdir("/proc/self/task")))
"""


def test_an_edit_opens_no_file_loads_no_module_and_starts_no_thread() -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "remit-sandbox", "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    touched, _, threads = ran.stdout.strip().rpartition(" ")
    listing = "('os.listdir', \"('/proc/self/task',)\")"
    assert touched.replace(listing, "") == "[]"
    assert threads == "1"
