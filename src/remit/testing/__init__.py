"""For tests of Remit and of executors written for it: processes that die where the test says, and what survives them.

`children` runs a program that acknowledges what it has done, and kills it at a named fault point (`remit.faultpoints`).
`system_calls` kills it at any state-changing system call, named or not. Neither proves that data reached the disk:
a killed process leaves the page cache behind, a power cut does not.
"""
