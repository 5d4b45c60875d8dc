"""The browser's proxy: it reads each request whole, asks the session's gate, and sends exactly the request that was
shown.

certificates   an authority that exists only in this process, and a certificate for each host
stream         the bytes of one connection, and whether the other end is still connected
request_head   the head of a request, read strictly (pure)
addresses      hosts, ports and addresses that may be reached (pure)
dns            the addresses of a name, each of them checked
upstream       connections to servers, to checked addresses; reused for reading requests only
responses      the answers to the browser
gate_client    asks the gate, and reports to it how a request ended
exchange       one request: address, lookup, decision, sending, response
websockets     the same for the messages of a WebSocket
connection     the browser's connections: a plain request or a tunnel, one request after the other
server         all of this for one listening socket of one session
"""

from remit.browser.proxy.certificates import Authority
from remit.browser.proxy.server import BrowserProxy, ProxyListener

__all__ = ["Authority", "BrowserProxy", "ProxyListener"]
