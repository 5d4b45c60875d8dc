"""The shape of the code is counted, and each count can fail: a planted breach of each rule is found."""

from pathlib import Path
from typing import Final

import pytest

from scripts import check_structure

ROOT: Final = Path(__file__).resolve().parents[2]
MANY_CLASSES: Final = "".join(f"class Thing{number}:\n    pass\n" for number in range(check_structure.MOST_TWICE + 1))
BREACHES: Final[dict[str, tuple[dict[str, str], str]]] = {
    "a module at the root": ({"helpers.py": ""}, "a module at the root of the package"),
    "a module named after an activity": ({"core/going.py": ""}, "a module named after an activity"),
    "an exception": ({"core/errors.py": "class Refused(Exception):\n    pass\n"}, "the exception Refused"),
    "an exception of another name": (
        {
            "core/errors.py": "class BaseError(Exception):\n    pass\n",
            "fs/a.py": "import x\nclass Gone(x.BaseError):\n    pass\nclass Lost(Gone):\n    pass\n",
        },
        "the exception Lost",
    ),
    "class names": ({"core/a.py": MANY_CLASSES, "fs/b.py": MANY_CLASSES}, "the class name Thing0 is defined 2 times"),
    "an import inside a function": (
        {"ledger/a.py": "def f() -> None:\n    from remit.store import claims\n"},
        "a function imports remit.store",
    ),
    "a relative import inside a function": (
        {"ledger/a.py": "def f() -> None:\n    from . import b\n"},
        "imports remit",
    ),
    "a private word": (
        {"core/a.py": "class OpenDoor:\n    pass\n", "fs/b.py": "def look_at(open_desk: int) -> None: ...\n"},
        "the name open_desk has the private word desk",
    ),
    "a private word in a package's name": (
        {"ledger/door/__init__.py": ""},
        "ledger/door: the name door has the private word door",
    ),
    "a private word in a module's name": (
        {"core/desk.py": ""},
        "core/desk.py: the name desk has the private word desk",
    ),
    "a private word for an import": ({"core/a.py": "import os as desk\n"}, "core/a.py:1: the name desk has"),
    "a private word for an imported name": ({"core/a.py": "from os import sep as room\n"}, "the name room has"),
    "a private word for an exception": (
        {"core/a.py": "try:\n    pass\nexcept OSError as road:\n    pass\n"},
        "core/a.py:3: the name road has",
    ),
    "a private word for a part of a list": (
        {"core/a.py": "match 1:\n    case [*doors]:\n        pass\n"},
        "the name doors has",
    ),
    "a private word for a pattern": (
        {"core/a.py": "match 1:\n    case int() as room:\n        pass\n"},
        "the name room has",
    ),
    "a private word for the rest of a mapping": (
        {"core/a.py": "match {}:\n    case {**papers}:\n        pass\n"},
        "the name papers has",
    ),
    "a private word for a context": (
        {"core/a.py": "with open('x') as desk:\n    pass\n"},
        "the name desk has",
    ),
    "a private word in capitals": ({"core/a.py": "class NOBODYKeeper:\n    pass\n"}, "the private word nobody"),
    "tests of no package": ({"../../tests/desk/test_desk.py": ""}, "tests/desk: no package has this name"),
    "a long module": ({"core/a.py": "\n" * (check_structure.MOST_LINES + 1)}, "801 lines"),
}


def planted(folder: Path, files: dict[str, str]) -> Path:
    for name, text in {"__init__.py": "", "version.py": "", **files}.items():
        path = folder / "src" / "remit" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_code_has_the_shape_that_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_structure.main([]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("breach", BREACHES)
def test_a_planted_breach_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str], breach: str) -> None:
    files, what = BREACHES[breach]
    assert check_structure.main(["--root", str(planted(tmp_path, files))]) == 1
    assert what in capsys.readouterr().err


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    allowed = {
        "cli/serve.py": "def serve() -> None:\n    from remit.web import app\n",
        "ledger/a.py": "def f() -> None:\n    import duckdb\n",
        "core/errors.py": "class LostError(Exception):\n    pass\n",
        "crypto/signing.py": "",
    }
    assert check_structure.main(["--root", str(planted(tmp_path, allowed))]) == 0


def test_every_listed_place_is_there() -> None:
    """A list that names what is gone allows what nothing needs."""
    tree = check_structure.Tree(ROOT)
    stems = {path.stem for path in tree.texts}
    assert stems >= check_structure.NOUNS_IN_ING
    assert all((ROOT / "src" / "remit" / f"{name}.py").exists() for name in check_structure.AT_THE_ROOT)
    assert all((ROOT / "src" / "remit" / name).exists() for name in check_structure.LATE_IMPORTS)
    assert set(tree.tests) >= check_structure.TESTS_OF_NO_PACKAGE.keys()
