"""What tests share: processes that are killed where the test says, and what survives them."""
