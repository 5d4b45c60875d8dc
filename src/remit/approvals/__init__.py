"""Questions to a person, and the answers: each bound to one thing, given once, by somebody who is not the agent."""
