"""Metrics, JSON logs and spans: how an operator observes Remit."""
