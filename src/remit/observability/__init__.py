"""What Remit says about itself: the check-up behind `remit doctor`, and structured logs."""
