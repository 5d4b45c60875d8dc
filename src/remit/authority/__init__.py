"""Who may ask: keys, signatures, leases. Private keys are loaded one role at a time, by the process that needs it."""
