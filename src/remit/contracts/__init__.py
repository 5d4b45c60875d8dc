"""The words every room speaks: closed, strict, frozen, bounded wire models, and nothing else.

An unknown, missing or mistyped field is refused, never ignored or converted. The JSON Schemas that Remit ships are
generated from these models.
"""
