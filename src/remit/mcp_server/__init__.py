"""The MCP server: an agent's way to the desk, over standard input and output or over HTTP.

server      the one factory; both transports, and the conformance fixture, serve what it builds
identity    who calls: an agent, by a capability token that is verified at each call; nobody else
tool        one tool: closed arguments in, a contract and a few words out, refusals with what to do next
call        what a tool works with: the caller, a thread, and the client that waits
plan_tools, task_tools, browser_tools, goal_tools    the tools; each asks the desk, and none has a rule of its own
resources   reports, diffs and results, to be read by whoever they belong to
stdio, http the transports

No tool approves, issues a token or signs a lease: those are rights that no agent has
(`remit.services.base.permissions`).
"""
