"""The web server: HTTP API, console, and MCP over HTTP. Thin: all of it calls the desk.

app        puts the parts together
settings   where it listens and what it lets through
exchange   one request: its body, its caller, how long he waits; and the answer's bytes
problems   every error as problem+json, and the one table of statuses
openapi    what the API says of itself
sse        the stream of events
api/       the routes under /v1
"""
