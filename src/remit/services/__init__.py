"""Application services: what the command line, HTTP, the console and MCP call.

services     all parts of it, for one process
base         who may ask for what (`permissions`, the only table of that kind), ownership, events, work under way
plans        proposals and runs, as each caller may see them
goals        goals of users, and their confirmations
inbox        requests that wait for a person, and the decisions; the ledger as people read it
"""
