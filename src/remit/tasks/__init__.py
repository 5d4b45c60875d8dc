"""Tasks: one file operation under a lease. The kernel issues leases and verifies results. No executor can import it."""
