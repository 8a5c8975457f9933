"""What carries the load: requests written out beforehand, connections without a queue, and answers stamped as they arrive.

Out: `direct` takes a connection of the `pool` (its way may go through a `proxy`) and writes the `request`. Back, one way, too:
`connection` stamps a read, `batching` queues it, `parsing` reads its HTTP, `response` gives the body to its reader.
"""

from core.load.transport.batching import Digest
from core.load.transport.direct import DirectTransport, transport_name
from core.load.transport.pool import spare_connections
from core.load.transport.proxy import proxy_on_the_way
from core.load.transport.request import Ready
from core.load.transport.response import OnSent, Reply

__all__ = ["Digest", "DirectTransport", "OnSent", "Ready", "Reply", "proxy_on_the_way", "spare_connections", "transport_name"]
