"""Requests for a person's approval, and the decisions: each bound to one thing, given once, never by an agent."""
