"""The routes under /v1, one module for each part of the desk. None decides anything: the desk and the road do."""
