"""A request written out before it is due: its bytes, where they go, and how long that may take."""

from typing import NamedTuple

import httpx

from core.net import PORTS


class Endpoint(NamedTuple):
    """Where connections go. `server_name` is the name that TLS asks for and checks; None for plain HTTP."""

    host: str
    port: int
    server_name: str | None


class Ready(NamedTuple):
    """A request written out, so that nothing is left to do when it is due; where it goes, and how long it may take."""

    origin: Endpoint
    method: str
    data: bytes
    connect_s: float | None
    read_s: float | None

    def with_body(self, body: bytes) -> "Ready":
        """The same, made with an empty body, with this one; a twentieth of the time of a request of httpx's."""
        before, length, after = self.data.partition(b"\r\nContent-Length: 0\r\n")
        assert length
        return self._replace(data=b"%b\r\nContent-Length: %d\r\n%b%b" % (before, len(body), after, body))


def ready(request: httpx.Request, by_proxy: bool = False, proxy_login: str | None = None) -> Ready:
    """A request of httpx's, whose content has been read, written out. `by_proxy`: for a proxy, which passes it on, with what opens
    that; a request over https goes through a tunnel, and is the same with and without."""
    timeouts = request.extensions.get("timeout") or {}
    passed_on = by_proxy and request.url.scheme == "http"
    data = _written(request, request.content, passed_on, proxy_login if passed_on else None)
    return Ready(endpoint_of(request), request.method, data, timeouts.get("connect"), timeouts.get("read"))


def endpoint_of(request: httpx.Request) -> Endpoint:
    """Where a request goes. Raises httpx.UnsupportedProtocol for what is not HTTP."""
    url = request.url
    if url.scheme not in PORTS:
        raise httpx.UnsupportedProtocol(f"The URL must begin with http:// or https://, not {url.scheme}://.", request=request)
    host = url.raw_host.decode("ascii")
    server_name = request.extensions.get("sni_hostname", host) if url.scheme == "https" else None
    return Endpoint(host, url.port or PORTS[url.scheme], server_name)


def _written(request: httpx.Request, content: bytes, passed_on: bool, proxy_login: str | None) -> bytes:
    """The request as it is written: head and body in one, so that they leave in one write."""
    fields = [(name, value) for name, value in request.headers.raw if name.lower() != b"transfer-encoding"]
    if len(fields) != len(request.headers.raw):  # made for a body of unknown length, which is known now
        fields.append((b"Content-Length", b"%d" % len(content)))
    if proxy_login is not None:
        fields.append((b"Proxy-Authorization", proxy_login.encode("ascii")))
    url = request.url
    target = b"http://%b%b" % (url.netloc, url.raw_path) if passed_on else url.raw_path  # RFC 9112, 3.2.2
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), target)]
    lines += [b"%b: %b" % field for field in fields]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(fields) or head.count(b"\r") != len(fields) or b"\0" in head:
        raise httpx.LocalProtocolError("A header of the request holds a line break or a zero byte.", request=request)
    return head + b"\r\n\r\n" + content
