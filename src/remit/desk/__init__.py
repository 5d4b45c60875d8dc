"""The desk: where every way in is received. Who may ask for what, what is proposed, what waits, how far it is.

callers    whoever asks: an agent with a capability token, or a person who has logged in
rights     what each of them may ask for; the only table of that kind
"""
