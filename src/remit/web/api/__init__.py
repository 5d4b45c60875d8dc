"""The routes under /v1, one module for each part of the services. None decides anything: services and engine do."""
