"""Prompts from a dataset: what a request asks with, read from the file when its body is made."""

import dataclasses
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from core.config import Api
from core.records import DatasetRows
from core.traffic import Conversation, Prompt, checksum, row_of

HELD_BYTES = 64 * 2**20
"""Prompts that were read stay in memory up to so much, so that a row that comes again waits for no disk. All rows of a run were
read moments before, to count their tokens: the first time they come from the system's cache (0.06 ms for a row of 2 kB)."""

_encoder = msgspec.json.Encoder()

Asked = dict[str, msgspec.Raw]
"""Fields of a body, as they are written out."""


class Rows:
    """The rows of a run by their place in its mix. Close it when the run has other ones. Raises RuntimeError, without the folder,
    for a file that cannot be opened any more: what a child says last is kept."""

    def __init__(self, dataset: DatasetRows, api: Api) -> None:
        self._dataset, self._api = dataset, api
        try:
            self._file = os.open(dataset.path, os.O_RDONLY)
        except OSError as error:
            raise RuntimeError(f"{Path(dataset.path).name} cannot be opened any more: {error.strerror}") from None
        self._held: dict[int, Asked] = {}
        self._talks: dict[int, Conversation] = {}
        """By where their rows begin, as far as they are sent: a row of a megabyte read anew for each turn holds up sends."""
        self._turns = Counter(dataset.begins)
        self._held_bytes = 0

    def asked(self, place: int, turn: int = 0, answers: Sequence[str] = ()) -> Asked:
        """What the body of a row's request has of it; of a later turn with the `answers` that came before it, else the recorded
        ones. Raises RuntimeError if the file has changed."""
        if answers:
            return self._read(place, turn, answers)
        asked = self._held.get(place)
        if asked is None:
            asked = self._read(place, turn)
            size = sum(len(bytes(value)) for value in asked.values())
            if self._held_bytes + size <= HELD_BYTES:
                self._held[place] = asked
                self._held_bytes += size
        return asked

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _read(self, place: int, turn: int, answers: Sequence[str] = ()) -> Asked:
        dataset = self._dataset
        if (talk := self._talks.get(dataset.begins[place])) is not None:
            return self._fields(talk.prompt(turn, answers))
        data = os.pread(self._file, dataset.sizes[place], dataset.begins[place])
        row = row_of(data, dataset.form) if checksum(data) == dataset.checksums[place] else None
        if isinstance(row, Conversation):
            row = self._kept(dataset.begins[place], row).prompt(turn, answers) if turn < len(row.turns) else None
        if row is None or (self._api == "completions" and row.text is None):
            raise RuntimeError(f"{Path(dataset.path).name} was changed while the run read it")
        return self._fields(row)

    def _kept(self, begin: int, talk: Conversation) -> Conversation:
        """The conversation, as far as it is sent, which stays in memory while there is room."""
        talk = dataclasses.replace(talk, turns=talk.turns[: self._turns[begin]])
        size = len(_encoder.encode(talk.prompt(len(talk.turns) - 1).as_chat()))
        if self._held_bytes + size <= HELD_BYTES:
            self._talks[begin] = talk
            self._held_bytes += size
        return talk

    def _fields(self, row: Prompt) -> Asked:
        fields = row.as_chat() if self._api == "chat" else {"prompt": row.text}
        return {name: msgspec.Raw(_encoder.encode(value)) for name, value in fields.items()}
