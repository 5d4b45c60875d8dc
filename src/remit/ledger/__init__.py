"""The ledger: an append-only, hash-chained, signed record with one chain for each tenant.

An entry is hashed with the hash of the entry before it. Each transaction ends with a signed head for every chain that
it extended. The newest head is also kept outside the database, as an anchor. `ledger.verify` finds entries that were
edited, deleted, reordered, moved, cut off or forked.
"""
