"""The browser host: a process in the background, one a workspace, in which sessions live from one command to the next.

frames     what is said over the socket, and how much of it at most
place      where the socket, the lock and the log are
client     finding the host, starting one if there is none, asking it
sayings    what one caller is to be told, and whether he is still there
server     answering, each caller in a thread of its own; the metrics too
__main__   the process itself
"""
