"""Reasons for a navigation, in addition to those of the browser."""

from typing import Final

NEW_WINDOW: Final = "newWindow"
"""The reason for a link or a form with a target; the browser does not say which. Such a window is closed at once."""
