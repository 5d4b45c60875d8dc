"""The sandbox for effects: one process for each task, confined by the Linux kernel, watched and killed by the host."""
