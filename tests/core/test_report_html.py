"""The page of a run: whole by itself, readable by machines and by those who hear it, and nothing of others' texts is mark-up."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core import prose
from core.judge.rate_verdicts import set_aside
from core.report import to_html
from core.run import Replay, read_run
from core.view import RunView
from tests.tui import knee_samples, mode_samples, samples

PATH = "/home/me/run_1.jsonl"
VOID = {"meta", "link", "img", "br", "hr", "input", "source"}
HOSTILE = "<script>alert(1)</script>\"'&\x1b[2J"
RUNS = sorted([Path("screenshots/demo.jsonl"), *Path("tests/data/runs").glob("*.jsonl")])


class Page(HTMLParser):
    """Follows the elements of a page, each of which must be closed, and keeps what it read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.said.append((self.open[-1], data))

    def texts(self, tag: str) -> list[str]:
        return [text for where, text in self.said if where == tag]

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [given for name, given in self.elements if name == tag]


def finished(**changes: Any) -> RunView:
    return replace(knee_samples.finished(), command="kneescope probe http://127.0.0.1:8000 --mode standard", **changes)


def recorded(path: Path) -> RunView:
    run = Replay(read_run(path))
    return run.view(run.length_s)


def classes(page: Page) -> set[str]:
    return {given["class"] or "" for _, given in page.elements if "class" in given}


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_the_page_of_a_recorded_run_is_whole_and_loads_nothing(path: Path) -> None:
    text = to_html(recorded(path), str(path))
    page = Page(text)
    assert text.startswith("<!doctype html>\n<html lang=")
    assert {"script", "link", "img", "iframe", "object", "a", "use", "image"}.isdisjoint(tag for tag, _ in page.elements)
    assert not re.search(r"url\(|@import|@font-face|javascript:| on[a-z]+=| style=", text)
    assert {given.get("content") for given in page.all("meta")} >= {"width=device-width, initial-scale=1", "light dark"}
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert "tabular-nums" in text
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<style>.*?</style>", "", text, flags=re.S))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_every_plot_has_a_title_and_says_what_it_shows(path: Path) -> None:
    page = Page(to_html(recorded(path), ""))
    plots = [given for given in page.all("svg") if given.get("role") == "img"]
    assert len(plots) >= 6
    ids = [given["id"] for _, given in page.elements if "id" in given]
    assert len(ids) == len(set(ids))
    for plot in plots:
        title, about = str(plot["aria-labelledby"]).split()
        assert {title, about} <= set(ids)
    assert all(said.strip() for tag in ("title", "desc") for said in page.texts(tag))
    assert all(given.get("aria-hidden") == "true" for given in page.all("svg") if given.get("role") is None)


def test_a_narrow_screen_scrolls_tables_alone() -> None:
    text = to_html(finished(), PATH)
    assert text.count("<table>") == text.count('<div class="wide" tabindex="0"><table>')
    assert ".wide { overflow-x: auto; }" in text
    assert "overflow-wrap: anywhere" in text


def test_its_sentences_are_those_of_the_text() -> None:
    view = finished()
    assert view.answer is not None
    page = Page(to_html(view, PATH))
    assert page.texts("h1") == [prose.sentence(view.answer.message)]
    said = "\n".join(text for _, text in page.said)
    assert "3 of 3 repeats passed, floor 96.0 %" in said
    assert "Assumes Poisson arrivals" in said
    assert "kneescope probe http://127.0.0.1:8000 --mode standard" in page.texts("pre")
    for note in view.answer.knee.notes:
        assert prose.text(note) in said
    for check in view.checks:
        assert prose.sentence(check.message) in page.texts("td")
    for step in view.steps:
        assert any(prose.text(step.reason) in cell for cell in page.texts("td"))
    assert f"Run file: {PATH}" in said


def test_the_plot_over_rates_has_the_target_the_bracket_and_a_mark_for_each_repeat() -> None:
    page = Page(to_html(finished(), PATH))
    assert "target 95 %" in page.texts("text")
    assert {"holds 11.3", "fails 13.6"} <= set(page.texts("text"))
    view = finished()
    passed = [repeat for step in view.steps if step.phase != "ramp" for repeat in step.repeats if repeat.verdict == "pass"]
    marks = [given for given in page.all("circle") if given.get("class") == "mark pass"]
    assert len(marks) == len(passed) + 1  # and the one that says what it means


def test_a_bound_is_a_bar_and_what_is_not_known_an_empty_one() -> None:
    cut = samples.judged_step(2, 13.0, "search", "fail", (0.2, 0.7), "at most 70 %", ("fail",))
    unknown = samples.judged_step(3, 14.0, "search", "fail", (0.2, 1.0), "the queue rises", ("fail",))
    page = Page(to_html(finished(steps=(cut, unknown), margins=(), ramp=()), PATH))
    assert {"bar fail", "bar fail unknown"} <= classes(page)
    assert any("at 14.0 requests/s not known" in text and "at 13.0 requests/s at most 70 %" in text for text in page.texts("desc"))
    crosses = [given for given in page.all("path") if given.get("class") == "stroke fail"]
    assert len(crosses) == 2  # of the repeat that is known, and of the line under the plot


def test_a_step_that_is_set_aside_is_in_the_table_and_in_no_plot() -> None:
    view = finished()
    away = set_aside(replace(view.steps[-1], rate_rps=77.0, step=99))
    page = Page(to_html(replace(view, steps=(*view.steps, away)), PATH))
    assert prose.text(away.reason) in page.texts("td")
    assert not any("77.0" in text for tag in ("text", "desc") for text in page.texts(tag))


@pytest.mark.parametrize(
    "view",
    [
        samples.nothing_yet(),
        samples.preflight(),
        samples.refused(),
        samples.void(),
        samples.no_metrics(),
        mode_samples.hold_finished(),
    ],
    ids=["nothing", "checks", "refused", "void", "no_metrics", "held"],
)
def test_a_run_of_which_little_is_known_has_a_page(view: RunView) -> None:
    page = Page(to_html(view, ""))
    assert page.texts("h1")
    assert all(section.strip() for section in page.texts("h2"))


def test_no_text_of_others_becomes_mark_up() -> None:
    view = finished()
    assert view.server is not None
    server = replace(view.server, model=HOSTILE, url=f"http://h/{HOSTILE}", version=HOSTILE, config={HOSTILE: HOSTILE})
    check = replace(view.checks[0], message=HOSTILE, check=HOSTILE)
    step = replace(view.steps[-1], reason=HOSTILE)
    hostile = replace(view, server=server, checks=(check,), steps=(*view.steps[:-1], step), command=f"kneescope {HOSTILE}")
    text = to_html(hostile, HOSTILE)
    page = Page(text)
    assert page.all("script") == []
    assert "<script" not in text
    assert "\x1b" not in text
    shown = HOSTILE.replace("\x1b", " ")
    assert shown in page.texts("td")
    assert f"kneescope {shown}" in page.texts("pre")
    assert to_html(samples.hostile(), "").count("<script") == 0
