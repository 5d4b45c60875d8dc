"""Keys, keyrings and signatures. Private keys are loaded one role at a time, by the process that needs them."""
