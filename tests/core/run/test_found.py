"""A run right after its checks: they are not made again, and what they found is part of its record."""

from pathlib import Path

from core.facts import fact
from core.records import Check
from core.run.events import CheckDone, Note
from core.run.log import RunLog
from core.run.session import Session
from tests.core.run.bench import Bench, assert_ended_clean, events_of, final_view, on_bench, to_the_end
from tests.core.run.fakes import config
from tests.core.run.virtual import run


def test_checks_that_were_just_made_are_not_made_again(path: Path) -> None:
    async def whole() -> tuple[Bench, Session]:
        checks = Bench(RunLog(path.with_name("checks.jsonl")))
        await checks.session.preflight()
        assert checks.session.found is not None
        bench = Bench(RunLog(path), found=checks.session.found)
        await bench.session.run()
        return bench, checks.session

    bench, checks = run(whole())
    assert checks.found is not None
    view = final_view(path)
    assert view.answer is not None
    assert view.answer.outcome == "bracket"
    assert [event.check for event in events_of(path, CheckDone)] == list(checks.found.checks)
    assert bench.generator.orders
    assert not [order for order in bench.generator.orders if order.phase == "single"]
    assert view.single_tpot_s == checks.state.view(1e9).single_tpot_s
    assert view.single_tpot_s is not None
    assert "checks_kept" in {getattr(note.text, "code", None) for note in events_of(path, Note)}
    assert_ended_clean(bench, path)


def test_the_prompts_of_a_run_are_not_those_of_its_checks(path: Path) -> None:
    async def whole() -> tuple[str, str]:
        checks = Bench(RunLog(path.with_name("checks.jsonl")))
        await checks.session.preflight()
        assert checks.session.found is not None
        bench = Bench(RunLog(path), found=checks.session.found)
        await bench.session.run()
        assert bench.generator._hello is not None
        return checks.session.found.hello.nonce, bench.generator._hello.nonce

    before, after = run(whole())
    assert before != after


def test_a_refusal_is_nothing_to_begin_with(path: Path) -> None:
    bench, _ = on_bench(path, to_the_end, refuse=("context",), probe=config())
    assert bench.session.found is None


def test_what_was_read_before_is_the_first_check_and_said_anew_with_kept_ones(path: Path) -> None:
    read = Check(check="lengths file", status="warn", message=fact("lengths_sampled", rows=4096, of_rows=9000))

    async def whole() -> None:
        checks = Bench(RunLog(path.with_name("checks.jsonl")), read=(read,))
        assert (await checks.session.preflight())[0] == read
        assert checks.session.found is not None
        await Bench(RunLog(path), found=checks.session.found, read=(read,)).session.run()

    run(whole())
    told = [event.check for event in events_of(path, CheckDone)]
    assert told[0] == read
    assert told.count(read) == 1
