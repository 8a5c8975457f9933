"""What is said of replicas that are watched."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import count, duration, long_duration, number, percent, plain


def _not_told(f: Figures) -> str:
    kept = f.n("kept")
    rest = f"; {'the replica' if kept == 1 else f'the {count(kept)} replicas'} found before {'stays' if kept == 1 else 'stay'}"
    return f"{f.word('source')}: {f.word('said')}{rest if kept else ''}"


def _whole(seconds: float) -> str:
    """A time that goes on while it is read."""
    return duration(float(round(seconds)))


def _rising(f: Figures) -> str:
    eta_s = f.known("eta_s")
    if eta_s is None:
        return "requests are getting more, but the knee is more than an hour away"
    return f"reaches its knee in about {long_duration(eta_s)} at this growth"


def _load(f: Figures) -> str:
    match f.word("by"):
        case "knee":
            return f"{percent(f['load_frac'])} of the rate that a replica was measured to hold"
        case "kv":
            return f"{percent(f['load_frac'])} of its KV cache in use"
        case _:
            return "requests are waiting"


def _imbalance(f: Figures) -> str:
    what = "requests in flight" if f.word("by") == "in_flight" else "finished requests"
    return f"the busiest replica, {f.word('url')}, had {number(f['ratio'])} times an even share of the {what} over the window"


def _over(f: Figures) -> str:
    n = f.n("over")
    return f"{count(n)} of {count(f.n('read'), 'replica')} {'is' if n == 1 else 'are'} above {plain(f['most_frac'])}"


SENTENCES: dict[Code, Sentence] = {
    "replicas_not_told": _not_told,
    "replicas_none": lambda f: "No replica was found",
    "watch_unread": lambda f: "not read yet",
    "watch_failing": lambda f: f"not read for {_whole(f['since_s'])}: {f.word('said')}",
    "watch_gone": lambda f: f"gone for {_whole(f['since_s'])}: no source lists it any more",
    "watch_late": lambda f: f"no answer for {_whole(f['age_s'])}; these are its last figures",
    "watch_several": lambda f: "several servers answer at this address in turn; give each replica's own address",
    "watch_restarted": lambda f: f"restarted {_whole(f['ago_s'])} ago",
    "watch_joined": lambda f: f"first listed {_whole(f['ago_s'])} ago",
    "watch_stalled": lambda f: f"requests are stuck: no token for {_whole(f['stalled_s'])}",
    "watch_stuck": lambda f: f"{count(len(f.of), 'replica')} {'is' if len(f.of) == 1 else 'are'} stuck: {', '.join(f.of)}",
    "watch_queue": lambda f: (
        f"requests queue for about {duration(f['wait_s'])}, so they miss the run's limits, although the rate is below its knee"
    ),
    "watch_other_model": lambda f: f"serves {f.word('model')}, and the run was of {f.word('run_model')}",
    "watch_growth_unknown": lambda f: f"growth is known after {duration(f['least_s'])}",
    "watch_rising": _rising,
    "watch_above_knee": lambda f: "at or above its knee",
    "watch_falling": lambda f: "requests are getting fewer",
    "watch_steady": lambda f: "steady",
    "watch_load": _load,
    "watch_imbalance": _imbalance,
    "watch_none_read": lambda f: (
        "The replica could not be read" if f.n("replicas") == 1 else f"None of {count(f.n('replicas'), 'replica')} could be read"
    ),
    "watch_some_unread": lambda f: f"{count(f.n('unread'))} of {count(f.n('replicas'), 'replica')} could not be read",
    "watch_over": _over,
    "watch_load_unknown": lambda f: "The load of no replica is known: none tells its KV use or how many requests it finished",
}
