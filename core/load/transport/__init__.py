"""What carries the load: connections, pools, requests written out beforehand, and answers stamped as they arrive."""

from core.load.transport.batching import Digest
from core.load.transport.direct import DirectTransport
from core.load.transport.proxy import proxy_on_the_way
from core.load.transport.request import SPARE_CONNECTIONS, Ready, transport_name
from core.load.transport.response import OnSent, Reply

__all__ = ["SPARE_CONNECTIONS", "Digest", "DirectTransport", "OnSent", "Ready", "Reply", "proxy_on_the_way", "transport_name"]
