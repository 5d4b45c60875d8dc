"""Pure decisions about what a plan may do. Each is a frozen value with its reasons. No clock, no disk, no database."""
