"""How numbers are written, with their units: every screen, text and sentence takes its form from here; each has one meaning.

What is measured has three significant digits, what was set stays as it was typed; thousands have separators, and nothing is ever
written with an exponent. Times of requests stay in seconds, times that people wait turn into minutes and hours.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

DASH = "\u2013"
"""Between the ends of an interval, and where a number is missing."""

_DUST = 1e-9

Rounded = Callable[[float], float]
"""math.floor or math.ceil, for a bound that must stay true; None: to the nearest."""


# --- plain numbers ------------------------------------------------------------------------------------------------


def number(value: float | None, rounded: Rounded | None = None) -> str:
    """What was measured: three significant digits (12.0, 0.0432), from 1,000 on all digits of the whole number."""
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    size = abs(value)
    power = math.floor(math.log10(float(f"{size:.2e}") if rounded is None else size))
    text = _to(value, max(0, 2 - power), rounded)
    return _to(value, 1 - power, rounded) if power < 2 and abs(float(text)) >= 10 ** (power + 1) else text


def as_set(value: float, digits: int = 12) -> str:
    """What was set, without zeros that nobody typed: 0.7, 3,350."""
    return f"{Decimal(f'{value:.{digits}g}'):,f}" if math.isfinite(value) else DASH


def typed(value: float) -> str:
    """As one types it, for a field, an option to copy, or a refusal that repeats it: no separators, and whatever it is."""
    if not 1e-9 <= abs(value) < 1e15:
        return f"{value:.12g}"
    return f"{Decimal(f'{value:.12g}'):f}"


def coordinate(value: float) -> str:
    """A place in a drawing, in its own units: two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def points(share: float) -> str:
    """A difference of two shares, in points of a percent: "+1.2 points"."""
    return f"{100 * share:+.1f} points"


def count(n: int, noun: str = "") -> str:
    """A whole number, with its noun if one is given: 1,234, "1 request", "3 requests"."""
    return f"{n:,}" if not noun else f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def length(n: float) -> str:
    """A length, or the mean of several, in whole tokens."""
    return count(round(n), "token")


def span(low: int, high: int, to: str = DASH, noun: str = "") -> str:
    """Whole numbers from one to another, with a noun if one is given: "512 to 1,023 tokens"; one number where both are alike."""
    return count(low, noun) if low == high else f"{low:,}{to}{high:,}{f' {noun}s' if noun else ''}"


def classes(counts: Mapping[str, int]) -> str:
    """Counts by class, most frequent first: "connection 5, http 2"."""
    return ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def money(amount: float) -> str:
    """A sum with two decimals, of large sums none, of less than one unit three digits."""
    return number(amount) if abs(amount) < 0.9995 else f"{amount:,.2f}" if abs(amount) < 9999.995 else f"{amount:,.0f}"


def data_size(n_bytes: float, rounded: Rounded | None = None) -> str:
    """An amount of memory or of data: 61.4 MB, 140 GB."""
    n, *units = n_bytes, "B", "kB", "MB", "GB", "TB"
    for unit in units[:-1]:
        if (text := number(n, rounded)) != "1,000" and abs(n) < 1000:
            return f"{text} {unit}"
        n /= 1000
    return f"{number(n, rounded)} {units[-1]}"


# --- rates --------------------------------------------------------------------------------------------------------


def rate_text(rate_rps: float) -> str:
    """A rate with its unit: "16.0 requests/s"."""
    return f"{number(rate_rps)} requests/s"


def rate_brief(rate_rps: float | None) -> str:
    """The same for a table, a plot or a title, where room is short: "16.0 req/s"."""
    return DASH if rate_rps is None else f"{number(rate_rps)} req/s"


def rate_number(rate_rps: float) -> str:
    """A rate whose unit stands beside it."""
    return number(rate_rps)


# --- times --------------------------------------------------------------------------------------------------------


def latency(seconds: float | None, rounded: Rounded | None = None) -> str:
    """A measured time of a request or of the client: 61.2 ms, 1.24 s."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    if abs(seconds) < 1 and (text := number(1000 * seconds, rounded)).lstrip("-") != "1,000":
        return f"{text} ms"
    return f"{number(seconds, rounded)} s"


def latency_brief(seconds: float | None) -> str:
    """The same in two digits for a narrow column: 0.8 ms, 19 ms, 1.2 s."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    value, unit = (seconds * 1000, "ms") if seconds < 0.9995 else (seconds, "s")
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:,.0f} {unit}"


def limit(seconds: float) -> str:
    """A limit as it was set: "800 ms", "1.5 s"; in seconds however long, for it is read beside latencies."""
    ms = as_set(1000 * seconds, 6)
    return f"{ms} ms" if seconds < 1 and ms != "1,000" else f"{as_set(seconds, 6)} s"


def duration(seconds: float | None) -> str:
    """A span of time, without needless zeros: "12 ms", "3.4 s", "40 s", "1 min 30 s", "2 h 5 min"."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{as_set(1000 * seconds, 3)} ms"
    if seconds < 9.95:
        return f"{as_set(seconds, 2)} s"
    whole = round(seconds)
    if whole >= 3600:
        return _two(round(seconds / 60), "h", "min")
    return _two(whole, "min", "s")


def long_duration(seconds: float) -> str:
    """A span that is only expected, as roughly as it is known: from a minute on in steps of 10 s, from ten on in whole minutes."""
    if seconds < 59.5:
        return duration(seconds)
    step = 10 if seconds < 595 else 60
    return duration(step * round(seconds / step))


def milliseconds(seconds: float) -> str:
    """A time of the client in a table whose head has the unit: two decimals."""
    return f"{1000 * seconds:,.2f}"


def stamp(seconds: float) -> str:
    """When a line was printed, since the start of the run: tenths of a second, in a column."""
    return f"{seconds:7.1f} s"


def clock(seconds: float) -> str:
    """How far something has got, as m:ss or h:mm:ss; whole seconds that are over."""
    minutes, whole = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{whole:02d}" if hours else f"{minutes}:{whole:02d}"


def time_of_day(unix_s: float) -> str:
    """A moment in UTC, to the second: "14:02:10"."""
    return f"{datetime.fromtimestamp(unix_s, UTC):%H:%M:%S}"


def age(seconds: float) -> str:
    """How long ago something was, in one unit: "now", "12 min", "5 h", "3 d". What lies ahead, as clocks differ, is now."""
    for length_s, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length_s:
            return f"{count(int(seconds // length_s))} {unit}"
    return "now"


def progress(done_s: float, whole_s: float) -> str:
    """How far something has got whose length is known: "24/40 s", from a minute on "0:24/1:30"."""
    return f"{done_s:.0f}/{whole_s:.0f} s" if whole_s < 59.5 else f"{clock(done_s)}/{clock(round(whole_s))}"


# --- shares -------------------------------------------------------------------------------------------------------


def percent(share: float | None, digits: int = 3, rounded: Rounded | None = None) -> str:
    """A measured share with three significant digits, or with as many as it takes to stay on its side of 0 and 100 %."""
    if share is None or not math.isfinite(share):
        return DASH
    value = float(f"{100 * share:.12g}")
    if value in (0, 100):
        return f"{value:.0f} %"
    decimals = max(0, digits - (1 if value < 9.995 else 2 if value < 100 else 3))
    text = _to(value, decimals, rounded)
    while decimals < 15 and _side(float(text.replace(",", ""))) != _side(value):
        decimals += 1
        text = _to(value, decimals, rounded)
    return f"{text} %"


def change(share: float) -> str:
    """By which share something grew or shrank, in whole percent with its sign: "+38 %", "-3 %", "+0 %"."""
    return f"{round(100 * share) or 0:+d} %"


def plain(share: float) -> str:
    """A share as it was set, a target above all: 95 %, 99.9 %."""
    return f"{as_set(100 * share, 6)} %"


def beside(share: float, target: float | None, decimals: int = 1, rounded: Rounded | None = None) -> str:
    """A share that is read beside a target: as many decimals as it takes to stay on its own side of it.

    94.96 % beside 95 % is never written "95.0 %", and "100 %" means all. Without a target it is read beside 100 %.
    """
    target = 1.0 if target is None else target
    if share in (0, 1):
        return plain(share)
    reaches = share >= target - _DUST
    for places in range(decimals, 5):
        scale: int = 10**places
        shown = (rounded or round)(round(share * 100 * scale, 6)) / scale
        if (shown >= 100 * target - _DUST) == reaches and (shown < 100 or share >= 1):
            return f"{shown:.{places}f} %"
    return plain(share)


def at_most(share: float, target: float) -> str:
    """An upper bound beside a target: rounded up, so that it stays true."""
    return f"at most {beside(share, target, 0, math.ceil)}"


def at_least(share: float, target: float) -> str:
    """A lower bound beside a target: rounded down."""
    return f"at least {beside(share, target, rounded=math.floor)}"


def between(low: float, high: float, target: float | None, to: str = " % to ") -> str:
    """An interval of shares beside a target, rounded outwards; one number when both ends are the same."""
    if low == high:
        return beside(low, target)
    return f"{beside(low, target, rounded=math.floor).removesuffix(' %')}{to}{beside(high, target, rounded=math.ceil)}"


def _to(value: float, decimals: int, rounded: Rounded | None) -> str:
    """With so many decimals; a bound is first freed of the dust of binary fractions."""
    if rounded is None:
        return f"{value:,.{decimals}f}"
    scale = 10.0**decimals
    return f"{rounded(float(f'{value * scale:.12g}')) / scale:,.{decimals}f}"


def _side(value: float) -> tuple[bool, bool, bool]:
    """Where a percentage lies: above 0, above 100, below 100."""
    return value > 0, value > 100, value < 100


def _two(n: int, large: str, small: str) -> str:
    """A whole number of the small unit, in both."""
    whole, rest = divmod(n, 60)
    return " ".join(part for part in (f"{whole:,} {large}" if whole else "", f"{rest} {small}" if rest else "") if part)
