"""Closed, strict, frozen, bounded models of every document that comes in or goes out, and nothing else.

An unknown, missing or mistyped field is refused, never ignored or converted. The JSON Schemas that Remit ships are
generated from these models.
"""
