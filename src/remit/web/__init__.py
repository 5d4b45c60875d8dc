"""The web server: HTTP API, console, and MCP over HTTP. All of it calls the services.

app, serve    the whole application and its start
config        address, host names, settings
http          one request: body, caller, errors as problem+json, OpenAPI, event stream
security      the guard, rate limits, quotas, security headers
login         login links and OIDC
server        the process and its sockets
api, console  the routes under /v1; the pages for people
"""
