"""Documents that give permission for one request: leases, envelopes, rollback orders, capability tokens, and results.

Each is signed. A verified document has a type of its own, and only its `verify_*` function makes that type.
"""
