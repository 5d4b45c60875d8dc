"""The kernel's side of the task door: it grants leases and judges results. No executor can import it."""
