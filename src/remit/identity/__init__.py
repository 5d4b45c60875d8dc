"""People: who was invited, with which role, and who is logged in now.

roles     what a person can be
secrets   codes and cookies: made here, shown once, kept as digests
kept      the file in the state directory that remembers them
found     what is handed out: an invitation, a session, who is logged in
roll      what counts of it, and what it is after a change
endings   what ends sessions: in force first, and then recorded, whatever happens between
people    inviting, logging in, looking up, ending
"""
