"""What Remit says about itself: metrics, JSON logs and spans."""
