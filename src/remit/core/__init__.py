"""Foundations of every package: canonical bytes, errors, ids and times, fault points, metrics, and printable text."""
