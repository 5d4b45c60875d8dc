"""Words for why a page goes elsewhere, beside those of the browser itself."""

from typing import Final

NEW_WINDOW: Final = "newWindow"
"""Of a link or a form with a target: the browser does not say which. The window is closed as soon as it is seen."""
