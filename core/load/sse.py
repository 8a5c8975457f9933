"""Server-sent events from bytes, incremental: any cut of the same bytes gives the same events. Pure and linear."""

import msgspec

MAX_EVENT_BYTES = 8 * 1024 * 1024
BARE_JSON = b"(bare JSON)"
_BOM = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its data lines joined by newlines, and its `event:` name if it has one.

    JSON outside any field, as some servers write their errors, on one line or over several, comes as an event named BARE_JSON.
    """

    data: bytes
    name: bytes | None = None


class EventTooLong(Exception):
    """The stream holds an event larger than the limit; the text is a sentence."""


class SseParser:
    """Takes the bytes of one body in any pieces and returns the events they complete.

    Lines end with LF, CRLF or CR and with nothing else (HTML standard, section 9.2): text in JSON may hold U+2028 and U+0085
    unescaped, so `str.splitlines` would break it; `bytes.splitlines` knows just these three. `any_event` says that there was one.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self.any_event = False
        self._limit = limit
        self._line = bytearray()
        self._data: list[bytes] = []
        self._bare: list[bytes] = []
        self._size = 0
        self._name: bytes | None = None
        self._first_line = True
        self._after_cr = False
        self._between_events = False

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events completed by these bytes. Raises EventTooLong."""
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        events: list[SseEvent] = []
        for line in data.splitlines(keepends=True):
            part = line.rstrip(b"\r\n")  # an end of line is not counted: it may be one byte or two, and these may be cut apart
            self._size += len(part)
            if self._size > self._limit:
                raise EventTooLong(f"The stream holds an event of more than {self._limit} bytes; it was not read on.")
            if len(part) == len(line):
                self._line += part
                break
            self._end_line(part, events)
        self._after_cr = data[-1:] == b"\r"
        self.any_event = self.any_event or bool(events)
        open_ = self._line or self._data or self._bare or self._size or self._after_cr
        self._between_events = not (open_ or self._first_line or self._name is not None)
        return events

    def plain(self, data: bytes) -> list[bytes] | None:
        """The data of the events that these bytes are, when they are nothing but whole events of one `data:` line each, as nearly
        every read is: in place of `feed`, at a third of its cost. None when they may be anything else, which is for `feed`."""
        if not self._between_events or not data.endswith(b"\n\n") or data.find(b"\r") >= 0:
            return None
        if data.find(b"\n") == len(data) - 2 and data.startswith(b"data: ") and len(data) <= self._limit:
            self.any_event = True
            return [data[6:-2]]
        events: list[bytes] = []
        for line in data[:-2].split(b"\n\n"):
            if line[:6] != b"data: " or line.find(b"\n") >= 0 or len(line) > self._limit:
                return None
            events.append(line[6:])
        self.any_event = True
        return events

    def close(self) -> list[SseEvent]:
        """The event that an orderly end of the body completes, for servers that leave out the last blank line."""
        events: list[SseEvent] = []
        if self._line:
            self._end_line(b"", events)
        self._end_event(events)
        self.any_event = self.any_event or bool(events)
        return events

    def _end_line(self, end: bytes, events: list[SseEvent]) -> None:
        line = end
        if self._line:
            line = bytes(self._line + end)
            self._line.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            self._end_event(events)
        elif self._bare:
            self._bare.append(line)
        elif line[:1] in (b"{", b"["):
            self._bare.append(line)
            if line.rstrip()[-1:] in (b"}", b"]"):
                self._end_bare(events)
        else:
            self._field(line)
        if not self._data and not self._bare:
            self._size = 0

    def _field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")

    def _end_event(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append(SseEvent(b"\n".join(self._data) if len(self._data) > 1 else self._data[0], self._name))
            self._data.clear()
        self._name = None
        if self._bare:
            self._end_bare(events)

    def _end_bare(self, events: list[SseEvent]) -> None:
        events.append(SseEvent(b"\n".join(self._bare), BARE_JSON))
        self._bare.clear()
