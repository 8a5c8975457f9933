"""Which rows of a dataset a run sends, and how long each is on this server: known before the first of them is sent."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import msgspec
from numpy.random import SeedSequence

from core.config import Api, ProbeConfig, Workload
from core.errors import UserError
from core.facts import Fact, fact
from core.records import DatasetRows, RequestRecord
from core.schedule import answer_lengths
from core.server.prompt_vocabulary import Tokenizer
from core.traffic import BadRows, Conversation, Dataset, Drawn, Prompt, Row, Span, draw, open_dataset, prompts_of, too_many_bad
from core.workloads import MOST_THINK_S, MixPart, Source

MOST_ROWS = 2_000
"""More than a quick search sends. Their lengths stand in the run file, some 100 bytes each, and counting their tokens takes a
server seconds. Each turn of a conversation counts."""

MOST_TURNS = 16
"""Of a conversation so many are sent: a window is judged when the conversations that begin in it are over."""

HISTORY_FRAC = 0.02
"""Room that later turns leave in the context: answers that come may have that many more tokens in a history than recorded ones."""

AT_ONCE = 4
"""Calls of `/tokenize` open at a time: an API process that others use as well has one core."""

BIG_BYTES = 200_000_000
"""A larger file takes seconds to look through; its progress is told in tenths."""

CHARS_PER_TOKEN = 4.0
"""Of English under the usual vocabularies, until answers of this server have told."""

Tell = Callable[[Fact], None]


@dataclass(frozen=True, slots=True)
class DatasetAsked:
    """The file of a run. `tell` hears of what takes long, `drawn` the workload that came of it, once it is known and when it has
    become better known."""

    path: Path
    tell: Tell = lambda found: None
    drawn: Callable[[Workload], None] = lambda workload: None


@dataclass(frozen=True, slots=True)
class Population:
    """The rows of a run: `workload` has one kind of request for each, or for each turn of it, and `rows` where it stands.
    `found` is the whole in words; `estimated` says which parts of the mix have prompts that the server has not counted.
    """

    workload: Workload
    rows: DatasetRows
    found: tuple[Fact, ...]
    estimated: tuple[bool, ...]

    @property
    def certain(self) -> bool:
        """Whether the server has counted the tokens of every prompt."""
        return not any(self.estimated)

    @property
    def refused(self) -> bool:
        """Whether there is nothing to send."""
        return not self.workload.mix


@dataclass(frozen=True, slots=True)
class _Sized:
    """A row by its place, or a turn of it, as a kind of request; `estimated`: the server has not counted its tokens."""

    part: MixPart
    at: Span
    estimated: bool


async def population(asked: DatasetAsked, config: ProbeConfig, tokenizer: Tokenizer, context_tokens: int | None) -> Population:
    """Draw the rows of a run by its workload seed, count their tokens, and leave out what does not fit the context. A conversation
    ends before the first of its turns that does not.

    Raises BadRows where too many rows cannot be used, and UserError for a file that is no dataset, or not one for this API; no
    sentence of theirs tells the folder of the file, since it is kept.
    """
    try:
        dataset, drawn, spans = await _off_loop(asked, config.method.seed_of_requests)
        api = config.target.api
        talks = _enough(drawn.rows)
        _refuse_other_api([prompt for talk in talks for prompt in talk], api, asked.path.name)
        if all(len(talk) == 1 for talk in talks):
            _refuse_without_turns(config.workload, f"{asked.path.name} holds no conversation with several turns")
        sized, untaken = await _sized(drawn.rows, talks, spans, config, tokenizer, asked.tell)
    except BadRows:
        raise
    except UserError as error:
        raise UserError(str(error).replace(str(asked.path), asked.path.name), error.exit_code) from None
    bad = (*drawn.bad, *(fact("row_bad", fact("row_untokenized"), at=row.at, unit=dataset.index.unit) for row in untaken))
    good = len(drawn.rows) - len(untaken)  # more than are sent, where conversations have many turns
    if not sized or too_many_bad(len(bad), good):
        raise BadRows("--dataset", asked.path.name, bad, len(bad) + good, good)
    kept = _fitting([each.part for each in sized], context_tokens)
    fitting = [sized[at] for at in kept]
    if fitting and not any(each.part.turn for each in fitting):
        _refuse_without_turns(config.workload, f"no conversation of {asked.path.name} has a second turn that fits the context")
    source = Source(
        kind="dataset", file=asked.path.name, form=dataset.form, rows=_rows(fitting), of_rows=dataset.index.rows, bad=len(bad)
    )
    return _whole(
        config.workload,
        source,
        DatasetRows(
            path=str(asked.path.absolute()),
            form=dataset.form,
            begins=tuple(each.at.begin for each in fitting),
            sizes=tuple(each.at.size for each in fitting),
            checksums=tuple(each.at.checksum for each in fitting),
        ),
        tuple(each.part for each in fitting),
        tuple(each.estimated for each in fitting),
        (dataset.found, *_said(drawn, bad, good, sized, fitting, context_tokens)),
    )


def recounted(before: Population, answered: Sequence[RequestRecord], context_tokens: int | None) -> Population:
    """The same rows, after answers have told how many tokens their prompts had: all lengths that were estimated are off by the same
    factor on average. The same where no answer tells, or every length is known."""
    told = [(record.prompt_tokens, record.asked_input) for record in answered if record.prompt_tokens]
    if before.certain or not told or before.workload.source is None:
        return before
    factor = sum(tokens for tokens, _ in told) / sum(asked for _, asked in told)
    mix = [
        msgspec.structs.replace(part, input_tokens=max(1, round(part.input_tokens * factor))) if estimated else part
        for part, estimated in zip(before.workload.mix, before.estimated, strict=True)
    ]
    kept = _fitting(mix, context_tokens)
    rows = msgspec.structs.replace(
        before.rows,
        begins=tuple(before.rows.begins[at] for at in kept),
        sizes=tuple(before.rows.sizes[at] for at in kept),
        checksums=tuple(before.rows.checksums[at] for at in kept),
    )
    estimated = tuple(before.estimated[at] for at in kept)
    said = fact("rows_recounted", answers=len(told), factor=factor, dropped=len(mix) - len(kept))
    source = msgspec.structs.replace(before.workload.source, rows=sum(mix[at].turn == 0 for at in kept))
    return _whole(before.workload, source, rows, tuple(mix[at] for at in kept), estimated, (said,))


def _whole(
    workload: Workload,
    source: Source,
    rows: DatasetRows,
    mix: tuple[MixPart, ...],
    estimated: tuple[bool, ...],
    found: tuple[Fact, ...],
) -> Population:
    source = msgspec.structs.replace(source, estimated=sum(estimated))
    drawn = fact("rows_drawn", rows=source.rows, estimated=sum(estimated), **_middles(mix)) if mix else fact("rows_none_fit")
    return Population(msgspec.structs.replace(workload, mix=mix, source=source), rows, (*found, drawn), estimated)


def _middles(mix: Sequence[MixPart]) -> dict[str, float]:
    """What is asked for on average, and at most."""
    return {
        "input_tokens": sum(part.input_tokens for part in mix) / len(mix),
        "output_tokens": sum(part.output_tokens for part in mix) / len(mix),
        "longest_tokens": max(part.input_tokens + part.output_tokens for part in mix),
    }


def _said(
    drawn: Drawn, bad: Sequence[Fact], good: int, sized: Sequence[_Sized], fitting: Sequence[_Sized], context_tokens: int | None
) -> Iterator[Fact]:
    yield from (each for each in drawn.said if each.code == "rows_pieces")
    rows, sent = _rows(sized), {each.part.row for each in fitting}
    talks = {row.at - 1: len(row.turns) for row in drawn.rows if isinstance(row, Conversation) and row.at - 1 in sent}
    if talks:
        turns = sum(each.part.row in talks for each in fitting)
        yield fact("rows_turns", rows=len(talks), turns=turns, cut=sum(talks.values()) - turns)
    if bad:
        yield fact("rows_bad", *bad[:5], bad=len(bad), drawn=len(bad) + good)
    if (dropped := rows - _rows(fitting)) > 0:
        yield fact("rows_unfit", rows=dropped, rows_frac=dropped / rows, context_tokens=context_tokens)


def _rows(sized: Sequence[_Sized]) -> int:
    return sum(each.part.turn == 0 for each in sized)


def _fitting(mix: Sequence[MixPart], context_tokens: int | None) -> list[int]:
    """Which of these fit the context; none of a conversation behind one that does not."""
    kept: list[int] = []
    for at, part in enumerate(mix):
        if part.turn and (not kept or kept[-1] != at - 1):
            continue
        tokens = part.input_tokens * (1 + HISTORY_FRAC * (part.turn > 0)) + part.output_tokens
        if context_tokens is None or tokens <= context_tokens:
            kept.append(at)
    return kept


def _refuse_without_turns(workload: Workload, why: str) -> None:
    """Refuse what was asked for of turns, where there are none."""
    for name, given in (("--prefix turns", workload.prefix.kind == "turns"), ("--think-time", workload.think_s is not None)):
        if given:
            raise UserError(f"{name}: {why}; leave it out.")


def _enough(rows: Sequence[Row]) -> list[tuple[Prompt, ...]]:
    """The prompts of the first rows, turn by turn, until there are enough."""
    talks: list[tuple[Prompt, ...]] = []
    found = 0
    for row in rows:
        if found >= MOST_ROWS:
            break
        talks.append(prompts_of(row, MOST_TURNS))
        found += len(talks[-1])
    return talks


class _GivenUpError(Exception):
    """Nobody waits for the file any more."""


async def _off_loop(asked: DatasetAsked, seed: int) -> tuple[Dataset, Drawn, list[Span]]:
    """Look through the file beside the event loop, which draws the screen meanwhile."""
    loop, given_up, told = asyncio.get_running_loop(), threading.Event(), 0

    def progress(share: float) -> None:
        nonlocal told
        if given_up.is_set():
            raise _GivenUpError
        if size > BIG_BYTES and int(10 * share) > told and share < 1:
            told = int(10 * share)
            found = fact("dataset_progress", file=asked.path.name, read_frac=told / 10, bytes=size)
            loop.call_soon_threadsafe(asked.tell, found)

    def read() -> tuple[Dataset, Drawn, list[Span]]:
        dataset = open_dataset(asked.path, progress)
        drawn = draw(dataset, MOST_ROWS, SeedSequence(seed), again=False)
        return dataset, drawn, dataset.spans(drawn.rows)

    size = 0
    with contextlib.suppress(OSError):  # the reader refuses it with a sentence
        size = asked.path.stat().st_size
    try:
        return await asyncio.to_thread(read)
    finally:
        given_up.set()


def _refuse_other_api(prompts: Sequence[Prompt], api: Api, file: str) -> None:
    if api == "completions" and any(prompt.text is None for prompt in prompts):
        raise UserError(f"--dataset: {file} holds messages of chats, which the completions API does not take; use --api chat.")


async def _sized(
    rows: Sequence[Row],
    talks: Sequence[tuple[Prompt, ...]],
    spans: Sequence[Span],
    config: ProbeConfig,
    tokenizer: Tokenizer,
    tell: Tell,
) -> tuple[list[_Sized], list[Prompt]]:
    """Every row with its lengths, turn by turn; beside them those that the server's own tokenizer does not take."""
    counts = bool(await tokenizer.ids("a"))
    n = sum(map(len, talks))
    otherwise = iter(answer_lengths(config.workload, n, SeedSequence(config.method.seed_of_requests, spawn_key=(1,))).tolist())
    if counts:
        tell(fact("rows_counting", rows=len(talks)))
    gate, untaken = asyncio.Semaphore(AT_ONCE), list[Prompt]()

    async def one(prompt: Prompt, at: Span, turn: int, think_s: float, output_tokens: int) -> _Sized | None:
        async with gate:
            if too_many_bad(len(untaken), len(rows)):  # a server that hangs would be waited for at each row
                return None
            tokens = await _prompt_tokens(prompt, config.target.api, tokenizer) if counts else None
            if counts and not tokens:
                untaken.extend([prompt] if turn == 0 else ())  # a conversation ends before a turn that is not taken
                return None
            if prompt.output_tokens is not None:
                output_tokens = prompt.output_tokens
            elif prompt.answer is not None:
                answer = await tokenizer.ids(prompt.answer) if counts else None
                output_tokens = _by_chars(prompt.answer) if answer is None else len(answer) or output_tokens
            asked = tokens if tokens is not None else prompt.input_tokens or _by_chars(_text(prompt))
            part = MixPart(input_tokens=asked, output_tokens=output_tokens, row=prompt.at - 1, turn=turn, think_s=think_s)
            return _Sized(part, at, tokens is None)

    found = await asyncio.gather(
        *(
            one(prompt, at, turn, _think_s(row, turn, config.workload), next(otherwise))
            for row, talk, at in zip(rows, talks, spans, strict=False)
            for turn, prompt in enumerate(talk)
        )
    )
    sized: list[_Sized] = []
    each = iter(found)
    for talk in talks:
        turns = [next(each) for _ in talk]
        sized.extend(turn for turn in takewhile(lambda turn: turn is not None, turns) if turn is not None)
    return sized, untaken


def _think_s(row: Row, turn: int, workload: Workload) -> float:
    """The pause before a turn: what was asked for, else what was recorded."""
    if turn == 0 or not isinstance(row, Conversation):
        return 0.0
    return min(row.turns[turn].think_s or 0.0, MOST_THINK_S) if workload.think_s is None else workload.think_s


async def _prompt_tokens(prompt: Prompt, api: Api, tokenizer: Tokenizer) -> int | None:
    if api == "chat":
        asked = prompt.as_chat()
        return await tokenizer.messages_count({name: asked[name] for name in ("messages", "tools") if name in asked})
    return await tokenizer.text_count(prompt.text or "")


def _text(prompt: Prompt) -> str:
    """All that a prompt says, for an estimate of its length."""
    if prompt.text is not None:
        return prompt.text
    said = [message.content for message in prompt.messages]
    return "\n".join(text if isinstance(text, str) else msgspec.json.encode(text).decode() for text in said if text is not None)


def _by_chars(text: str) -> int:
    return max(1, round(len(text) / CHARS_PER_TOKEN))
