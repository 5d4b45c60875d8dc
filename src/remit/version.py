"""The version of Remit, in a module that every package can import."""

__version__ = "0.1.0"
