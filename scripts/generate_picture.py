"""Draws docs/images/demo.svg from the output of `remit demo`. Run it by hand after a change of the demo."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURE: Final = ROOT / "docs" / "images" / "demo.svg"


def main() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "remit", "demo"],
        env={**os.environ, "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=100, file=nowhere, force_terminal=True)
        console.print(Text("$ remit demo", style="bold"))
        console.print(Text.from_ansi(shown))
        picture = console.export_svg(title="remit demo")
    # A picture in a README must not load fonts from a server. The fallback is any monospace font.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
