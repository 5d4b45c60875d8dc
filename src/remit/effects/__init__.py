"""The code that runs inside the sandboxed process. It knows its inputs and its output; no key, ledger or store."""
