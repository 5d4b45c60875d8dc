"""The checks behind `remit doctor`."""
