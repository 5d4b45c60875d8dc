"""People, their roles and sessions; tokens that are issued and revoked; who calls.

models        what is handed out: an invitation, a session, who is logged in, and the roles
secrets       codes and cookies: made here, shown once, stored as digests
people_file   the file in the state directory that remembers people, and what it is after a change
revocations   what ends sessions: in force first, and then recorded
people        inviting, logging in, looking up, removing
tokens        capability tokens of a workspace: issued, verified, revoked
callers       the caller of a request: an agent with a token, or a person who has logged in
"""
