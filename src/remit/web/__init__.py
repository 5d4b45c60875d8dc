"""The web server: HTTP API, console, and MCP over HTTP. Thin: all of it calls the services.

app, serve    put the parts together
config        where it listens and what it lets through
http          one request: its body, its caller; every error as problem+json; OpenAPI; the stream of events
security      limits, headers, and what is refused before it is read
login         login links and OIDC
server        the process and its sockets
api, console  the routes under /v1; the pages for people
"""
