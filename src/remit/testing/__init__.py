"""For tests of Remit and of executors written for it: processes that die where the test says, and what survives them.

`executor_contract.check_capability` tries a capability on a real workspace in a real sandbox, and says what is wrong
with it. `child_process` runs a program that acknowledges what it has done, and kills it at a named fault point
(`remit.core.faultpoints`). `strace_kill` kills it at any state-changing system call, named or not. Neither proves that
data reached the disk: a killed process leaves the page cache behind, a power cut does not. `crash_injection` stops a
program, with everything it has started, at its N-th change to a disk, and can kill it there, let the call fail or write
half, or copy the disk; `make crash-tasks` sweeps the file tasks with it, power cuts included.
"""
