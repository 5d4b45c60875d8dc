"""A real Chromium without a network of its own, and the one way out of it, where every request can be held."""
