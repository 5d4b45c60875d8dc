"""Approval requests and the decisions of people. A decision is for one request, is final, and is never an agent's."""
