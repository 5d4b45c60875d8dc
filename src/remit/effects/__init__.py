"""The code that runs inside the sandboxed process. It has its inputs and its output, and no key, ledger or store."""
