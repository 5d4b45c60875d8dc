"""Where effects run: one process for each task, confined by the kernel, watched and killed by the host."""
