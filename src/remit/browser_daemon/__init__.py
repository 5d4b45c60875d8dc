"""The browser host: one background process for each workspace. Sessions live in it from one command to the next.

framing      what is said over the socket, and how much of it at most
socket_path  where the socket, the lock and the log are
client       finds the host, starts one if there is none, and asks it
outbox       what one caller is to be told, and whether the caller is still there
server       answers, each caller in a thread of its own; the metrics too
__main__     the process itself
"""
