"""The MCP server: an agent's way to the services, over standard input and output or over HTTP.

server      the one factory; both transports, and the conformance fixture, serve what it builds
auth        the caller of each call: an agent, by a capability token that is verified at each call
context     what a tool needs: the caller, a thread, and the client that waits
tools       the tools, each with closed arguments, a contract as its answer, and a next step in each refusal
resources   reports, diffs and results, which only their own agent can read
stdio, http the transports

No tool approves anything, issues a token or signs a lease. No agent has those rights
(`remit.services.base.permissions`).
"""
