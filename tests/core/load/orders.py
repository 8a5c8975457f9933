"""Hellos and orders for tests, with everything that a test does not care about filled in."""

from core.access import Access
from core.config import Api, Lengths, Target, Workload
from core.records import Hello, Phase, PromptAlphabet, RepeatOrder, Segment, Shape

ALPHABET = PromptAlphabet(
    token_ids=tuple(range(100, 612)),
    words=tuple(f"word{i}" for i in range(300)),
    tokens_per_word=2.0,
    chat_overhead_tokens=12.0,
)

CHAT = Shape(prompt="messages", length_by="max_completion_tokens")


def hello(
    url: str = "http://127.0.0.1:1",
    *,
    api: Api = "completions",
    workload: Workload | None = None,
    nonce: str = "5eed",
    api_key: str | None = None,
    alphabet: PromptAlphabet = ALPHABET,
    shape: Shape | None = None,
) -> Hello:
    return Hello(
        target=Target(url=url, api=api),
        model="tiny",
        workload=workload or Workload(input_tokens=Lengths(median=32), output_tokens=Lengths(median=2)),
        alphabet=alphabet,
        nonce=nonce,
        access=Access(api_key=api_key),
        shape=shape or (CHAT if api == "chat" else Shape()),
    )


def order(
    *segments: tuple[float, float],
    number: int = 1,
    phase: Phase = "search",
    repeat: int = 0,
    seed: int = 11,
    arrival_seed: int | None = None,
    offsets_s: tuple[float, ...] | None = None,
    start_at: float = 0.0,
) -> RepeatOrder:
    """An order of (rate, duration) segments, or of given offsets."""
    return RepeatOrder(
        order=number,
        phase=phase,
        step=1,
        repeat=repeat,
        seed=seed,
        arrival_seed=arrival_seed,
        segments=tuple(Segment(rate_rps=rate, duration_s=duration, role="measured") for rate, duration in segments),
        offsets_s=offsets_s,
        start_at=start_at,
    )
