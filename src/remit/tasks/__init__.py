"""Tasks: one file operation under a lease. The kernel grants leases and judges results; no executor can import it."""
