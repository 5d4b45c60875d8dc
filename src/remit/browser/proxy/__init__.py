"""The way out of the browser: a proxy that reads each request whole, asks the session's gate, and sends what it showed.

certificates   an authority that lives and dies with this process, and a certificate for each host
stream         the bytes of one connection, and whether the other end is still there
request_head   the head of a request, read strictly (pure)
addresses      hosts, ports and addresses that may be reached (pure)
dns            names to addresses, each of them checked
upstream       connections to servers: to the address that was checked, reused for plain reading only
responses      what goes back to the browser
gate_client    asks the gate, and tells it how a request ended
exchange       one request: address, lookup, decision, sending, response
websockets     the same for the messages of a WebSocket
connection     what comes in: a plain request or a tunnel, one request after the other
server         all of it, for one listening socket of one session
"""

from remit.browser.proxy.certificates import Authority
from remit.browser.proxy.server import BrowserProxy, ProxyListener

__all__ = ["Authority", "BrowserProxy", "ProxyListener"]
