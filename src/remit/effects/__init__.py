"""The hands. An effect knows its inputs and its output and nothing of keys, ledger or store."""
