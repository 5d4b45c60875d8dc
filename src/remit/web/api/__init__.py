"""The routes under /v1, one module for each part of the services. They make no decisions: services and engine do."""
