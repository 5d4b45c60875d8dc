"""Application services: what the command line, HTTP, the console and MCP call.

services     all services of one process
base         the rights of callers (`permissions`, the only table of rights), ownership, events and jobs
plans        proposals and runs, as each caller may see them
goals        the goals of users, and their confirmations
inbox        the requests that wait for a person, and the decisions; the ledger, for people
"""
