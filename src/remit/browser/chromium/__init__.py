"""Chromium itself: started so that it can reach only Remit's listeners, and controlled without trust in the page."""
