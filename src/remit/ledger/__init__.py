"""What happened: an append-only, hash-chained, signed record, one chain a tenant.

An entry is hashed with its predecessor's hash; each transaction ends with a signed head for every chain it touched;
the newest head is also kept outside the database, as an anchor. Editing, deleting, reordering, moving, truncating or
forking entries is found by `ledger.verify`.
"""
