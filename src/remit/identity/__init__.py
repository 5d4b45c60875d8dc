"""People with their roles and sessions, capability tokens, and the callers that they identify.

models        an invitation, a session, a logged-in person, and the roles
secrets       login codes and cookies: made here, shown once, stored as digests
people_file   the file of people in the state directory, and its changes as pure functions
revocations   logouts and removals: in force first, and then recorded
people        inviting, logging in, looking up, removing
tokens        the capability tokens of a workspace: issued, verified, revoked
callers       the caller of a request: an agent with a token, or a person who has logged in
"""
