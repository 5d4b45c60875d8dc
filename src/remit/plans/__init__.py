"""What each step of the road means for one kind of request. A door chooses no order; `road.py` does."""
