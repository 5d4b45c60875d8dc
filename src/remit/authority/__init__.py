"""Documents that give permission for one request: leases, envelopes, rollback orders, capability tokens, and results.

Each is signed. What is verified has a type of its own, made by its `verify_*` function and nothing else.
"""
