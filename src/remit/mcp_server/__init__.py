"""The MCP server: an agent's way to the services, over standard input and output or over HTTP.

server      the one factory; both transports, and the conformance fixture, serve what it builds
auth        who calls: an agent, by a capability token that is verified at each call
context     what a tool works with: the caller, a thread, and the client that waits
tools       the tools, each with closed arguments, a contract as its answer, and a next step in each refusal
resources   reports, diffs and results, to be read by the agent that they belong to
stdio, http the transports

No tool approves, issues a token or signs a lease: those are rights that no agent has
(`remit.services.base.permissions`).
"""
