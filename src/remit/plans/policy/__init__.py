"""What a plan may do: pure decisions, each a frozen value with its reasons. No clock, no disk, no database."""
