"""The desk: where every way in is received. Who may ask for what, what is proposed, what waits, how far it is.

callers    whoever asks: an agent with a capability token, or a person who has logged in
rights     what each of them may ask for; the only table of that kind
ownership  whose a thing is: an agent sees what it asked for itself
desk       all parts of it, for one process
inbox      questions that wait for a person, and his answers
work       what takes longer than its caller waits
events     what the record gains, told to whoever listens
meaning    what an entry of the record says, in a few words
"""
