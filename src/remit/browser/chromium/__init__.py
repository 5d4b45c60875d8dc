"""Chromium itself: started where it can reach nothing but our listeners, and driven without believing the page."""
