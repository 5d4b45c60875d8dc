"""Where effects will run: confined by the kernel. Today it only asks the kernel what it can do."""
