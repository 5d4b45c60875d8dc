"""The browser host: one background process for each workspace. Sessions stay open in it from one command to the next.

framing      the messages over the socket, and their size limit
socket_path  the paths of the socket, the lock and the log
client       finds the host, starts one if there is none, and sends it requests
outbox       the messages for one caller, and whether the caller is still connected
server       answers each caller in a thread of its own, and serves the metrics
__main__     the process itself
"""
