"""What prompts can be made of on this server: token ids, or words of a constant token count; needs no tokenizer of our own."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from core.net import UNREADABLE
from core.records import PromptAlphabet, RequestRecord
from core.server.http import Caller, HttpError
from core.workloads import MOST_TOKENS

LETTERS = tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_COMMON = (
    "the of and to in is you that it he was for on are as with his they at be this have from or one had by word but not what all "
    "were we when your can said there use an each which she do how their if will up other about out many then them these so some "
    "her would make like him into time has look two more write go see number no way could people my than first water been call "
    "who oil its now find long down day did get come made may part over new sound take only little work know place year live me "
    "back give most very after thing our just name good sentence man think say great where help through much before line right"
)
_WORDS = tuple(_COMMON.split())
_TEXT = " ".join((*LETTERS, *"0123456789", "".join(LETTERS), "0123456789.,;:!?-+*/()[]=", *_WORDS))

BLIND_RANGES = (range(1000, 2000), range(100, 250))
"""Ids to try where nothing can be tokenized: plain text in the usual vocabularies; the second fits tiny byte-level ones."""

_MIN_IDS = 16
_IDS_END = 2**31
"""Vocabularies have some 100,000 ids; what is no 32-bit number is none."""
_MIN_WORDS = 8
"""Fewer cannot tell thousands of prompts apart in their first few tokens."""

CALIBRATION_WORDS = (32, 96)
"""Prompt sizes of the two requests that show what a word and what stands around the words cost."""


class _Tokens(msgspec.Struct):
    count: int
    tokens: list[int] = []


class Tokenizer:
    """The server's own `/tokenize`; None wherever it does not answer as vLLM does."""

    def __init__(self, caller: Caller, base: str, model: str) -> None:
        self._caller, self._url, self._model = caller, f"{base}/tokenize", model

    async def ids(self, prompt: str) -> list[int] | None:
        """Token ids of a text, without special tokens."""
        found = await self._ask({"model": self._model, "prompt": prompt, "add_special_tokens": False})
        return found.tokens if found else None

    async def text_count(self, prompt: str) -> int | None:
        """Prompt tokens of a completion of this text, special tokens included."""
        found = await self._ask({"model": self._model, "prompt": prompt})
        return found.count if found else None

    async def chat_count(self, content: str) -> int | None:
        """Prompt tokens of one user message, template included."""
        return await self.messages_count({"messages": [{"role": "user", "content": content}]})

    async def messages_count(self, asked: Mapping[str, object]) -> int | None:
        """Prompt tokens of a chat that is asked for so (messages, tools), template included."""
        found = await self._ask({"model": self._model, **asked, "add_generation_prompt": True})
        return found.count if found else None

    async def _ask(self, body: object) -> _Tokens | None:
        try:
            reply = await self._caller.post(self._url, body)
            found = msgspec.json.decode(reply.body, type=_Tokens) if reply.ok else None
        except (HttpError, *UNREADABLE):
            return None
        return found if found is not None and 0 <= found.count <= MOST_TOKENS else None


async def completion_alphabets(tokenizer: Tokenizer) -> list[PromptAlphabet]:
    """Alphabets of token ids to try, best first: the ids of ordinary text, or blind ranges where there is no `/tokenize`."""
    ids = tuple(sorted({token for token in await tokenizer.ids(_TEXT) or [] if 0 <= token < _IDS_END}))
    if len(ids) >= _MIN_IDS:
        return [PromptAlphabet(token_ids=ids)]
    return [PromptAlphabet(token_ids=tuple(ids)) for ids in BLIND_RANGES]


async def chat_alphabet(tokenizer: Tokenizer) -> PromptAlphabet | None:
    """Words and the template's overhead by `/tokenize`; None when it does not tell or does not add up."""
    return await _counted(tokenizer, tokenizer.chat_count)


async def text_alphabet(tokenizer: Tokenizer) -> PromptAlphabet | None:
    """The same for completions of text, whose overhead is that of the special tokens."""
    return await _counted(tokenizer, tokenizer.text_count)


async def _counted(tokenizer: Tokenizer, count: Callable[[str], Awaitable[int | None]]) -> PromptAlphabet | None:
    words, per_word = await _constant_words(tokenizer)
    if len(words) < _MIN_WORDS or per_word < 1:
        return None
    small, large = CALIBRATION_WORDS
    counts = [await count(" ".join(words[i % len(words)] for i in range(n))) for n in (small, large)]
    if counts[0] is None or counts[1] is None or counts[1] - counts[0] != (large - small) * per_word:
        return None
    overhead = counts[0] - small * per_word
    return PromptAlphabet(token_ids=(), words=words, tokens_per_word=per_word, chat_overhead_tokens=overhead)


def calibrated(small: RequestRecord, large: RequestRecord) -> PromptAlphabet | None:
    """Letters, with what each and what stands around them cost by the usage of two requests that were sent as one token a letter.

    None when the two do not tell (no usage, or no more tokens for more letters).
    """
    words = large.asked_input - small.asked_input
    if small.prompt_tokens is None or large.prompt_tokens is None or words <= 0 or large.prompt_tokens <= small.prompt_tokens:
        return None
    per_word = (large.prompt_tokens - small.prompt_tokens) / words
    overhead = small.prompt_tokens - per_word * small.asked_input
    return PromptAlphabet(token_ids=(), words=LETTERS, tokens_per_word=per_word, chat_overhead_tokens=overhead)


async def _constant_words(tokenizer: Tokenizer) -> tuple[tuple[str, ...], int]:
    """Words that all cost the same number of tokens behind a blank, and that number; no words when it is not known.

    Ordinary vocabularies have each of these words as one token: two calls. In others only letters are looked at, because
    a single letter is also at the start of a text what it is in the middle.
    """
    both = (*LETTERS, *_WORDS)
    if await _cost(tokenizer, both) == len(both):
        return both, 1
    costs = await _costs(tokenizer, LETTERS, await _cost(tokenizer, LETTERS))
    if not costs:
        return (), 1
    per_word = Counter(costs.values()).most_common(1)[0][0]
    return tuple(word for word, cost in costs.items() if cost == per_word), per_word


async def _cost(tokenizer: Tokenizer, words: tuple[str, ...]) -> int | None:
    """Tokens that these words add behind another one."""
    alone, together = await tokenizer.ids("a"), await tokenizer.ids(" ".join(("a", *words)))
    return len(together) - len(alone) if alone and together else None


async def _costs(tokenizer: Tokenizer, words: tuple[str, ...], total: int | None) -> dict[str, int]:
    """Tokens of each word, by halving until a group's total says it all; empty when the server stops telling."""
    if total is None:
        return {}
    if total == len(words) or len(words) == 1:
        return dict.fromkeys(words, total // len(words))
    half = len(words) // 2
    first = await _cost(tokenizer, words[:half])
    if first is None:
        return {}
    return await _costs(tokenizer, words[:half], first) | await _costs(tokenizer, words[half:], total - first)
