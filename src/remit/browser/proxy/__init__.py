"""The way out of the browser: a proxy that reads each request whole, asks the session's gate, sends what it showed.

certificates   an authority that lives and dies with this process, and a certificate for each host
wire           the bytes of one connection, and whether the other end is still there
heads          the head of a request, read strictly (pure)
places         hosts, ports and addresses that may be reached (pure)
lookups        names to addresses, each of them checked
upstream       connections to servers: to the address that was checked, reused for plain reading only
answers        what goes back to the browser
judging        asking the gate, and telling it how a request ended
exchange       one request: place, lookup, judgement, sending, answer
websockets     the same for the messages of a WebSocket
connection     what comes in: a plain request or a tunnel, one request after the other
proxy          all of it, for one listening socket of one session
"""

from remit.browser.proxy.certificates import Authority
from remit.browser.proxy.server import Egress, Serving

__all__ = ["Authority", "Egress", "Serving"]
