"""What runs on a machine that sends, without anything that carries words to it."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path

from core.load.protocol import encode, messages
from core.records import LoadDone, LoadReady, RequestEnded
from core.workers.host import BATCH_S, Host
from core.workers.messages import Heard, from_driver, passed_on
from tests.core.load.orders import hello, order
from tests.processes import gone, is_there


def test_commands_that_come_twice_are_obeyed_once_and_lines_come_in_whole_batches() -> None:
    host = Host()
    try:
        asked = order(offsets_s=(0.0, 0.0), start_at=time.monotonic())
        host.say(1, encode(hello()))
        for _ in range(2):
            host.say(2, encode(asked))
        told = []
        for lines in host.batches():
            assert lines.endswith(b"\n")
            told += messages().feed(lines)
            if isinstance(told[-1], LoadDone):
                break
        assert isinstance(told[0], LoadReady)
        assert sorted(m.index for m in told if isinstance(m, RequestEnded)) == [0, 1]
        assert host.beat() <= host.now()
    finally:
        host.close()
    assert list(host.batches()) == [], "a second order would have been refused with a last word"
    assert "exit code 0" in host.last_words()
    host.say(3, encode(asked))


ACTOR = """
import os, time
from core.workers.host import Host
host = Host(ends_with_parent=True)
print(os.getpid(), host.pid, flush=True)
time.sleep(600)
"""
RAYLET = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {ACTOR!r}], stdin=subprocess.DEVNULL)
"""


async def test_it_ends_with_the_process_that_keeps_it_and_so_does_what_sends() -> None:
    words, root = (sys.executable, "-c", RAYLET), Path(__file__).parents[3]
    keeper = await asyncio.create_subprocess_exec(*words, stdout=PIPE, cwd=root, start_new_session=True)
    try:
        assert keeper.stdout is not None
        pids = [int(pid) for pid in (await keeper.stdout.readline()).split()]
        assert len(pids) == 2
        assert all(map(is_there, pids))
        keeper.kill()
        await gone(*pids)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(keeper.pid, signal.SIGKILL)
        await keeper.wait()


def test_lines_pass_the_driver_as_they_are() -> None:
    done = LoadDone(order=1, t=1.5, sent=3, unsent=0, cpu_frac=0.1, loop_lag_max_s=0.0)
    ended = RequestEnded(order=1, index=0, t_sched=1.0, t_end=2.0, asked_input=1, asked_output=1, ending="http", error="a\nb, [c]")
    passed = passed_on(3, encode(ended) + encode(done))
    assert from_driver().feed(encode(passed)) == [Heard(worker=3, messages=[ended, done])]  # type: ignore[arg-type]


def test_a_batch_waits_no_longer_than_a_decision_allows_for() -> None:
    from core.judge.stopping import REPORT_DELAY_S

    assert BATCH_S < REPORT_DELAY_S / 2
