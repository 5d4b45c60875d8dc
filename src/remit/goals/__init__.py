"""The goal door's core: from what a user said to one governed simulation. It orchestrates; it never acts itself."""
