"""Gaps of an input, and what the engine does with a hit that leans on having seen all the time."""

from __future__ import annotations

import random

import pytest

from analyzer.core.coverage import Coverage, Gap, Gaps
from analyzer.core.finding import ExitCode, Severity, Verdict
from analyzer.pipeline.output import exit_code
from tests.unit.core.test_engine import hit, rule, run

GAPS = Gaps([Gap(10, 20, ("a",)), Gap(18, 30, ("a", "b")), Gap(50, 60)])


@pytest.mark.parametrize(
    ("when", "clients", "found"),
    [
        ((0, 9), ("a",), None),
        ((0, 10), ("a",), (10, 30)),
        ((30, 40), ("a",), (10, 30)),
        ((31, 49), ("a",), None),
        ((0, 17), ("b",), None),
        ((0, 18), ("b",), (18, 30)),
        ((0, 49), ("c",), None),
        ((0, 50), ("c",), (50, 60)),  # anybody's
        ((55, 55), (), (50, 60)),
        ((0, 100), None, (10, 30)),
        ((61, 100), None, None),
        (None, ("b",), (18, 30)),
    ],
)
def test_a_gap_within_a_time(
    when: tuple[int, int] | None, clients: tuple[str, ...] | None, found: tuple[int, int] | None
) -> None:
    assert GAPS.within(when, clients) == found


def test_gaps_are_found_as_a_plain_search_finds_them() -> None:
    chance = random.Random(1)
    spans = [(low, low + chance.randrange(5)) for low in (chance.randrange(500) for _ in range(60))]
    gaps = Gaps(Gap(low, high, ("a",)) for low, high in spans)
    for _ in range(500):
        first = chance.randrange(500)
        last = first + chance.randrange(20)
        plain = any(low <= last and high >= first for low, high in spans)
        assert (gaps.within((first, last), ("a",)) is not None) == plain


def test_no_gaps() -> None:
    assert Gaps([]).within(None, None) is None


LOSSY = Coverage(gaps=(Gap(5, 6, ("a",)),))


@pytest.mark.parametrize(
    ("follows_state", "leans_on", "withheld"),
    [
        (True, None, True),
        (True, ("a",), True),
        (True, ("b",), False),
        (True, (), False),
        (False, None, False),
        (False, ("a",), True),
        (False, ("b",), False),
    ],
)
def test_who_leans_on_whom(follows_state: bool, leans_on: tuple[str, ...] | None, withheld: bool) -> None:
    outcome = run(rule(hit(leans_on=leans_on), follows_state=follows_state), coverage=LOSSY)
    assert (len(outcome.findings), len(outcome.withheld)) == ((0, 1) if withheld else (1, 0))
    (judgement,) = outcome.judgements
    assert judgement.verdict is (Verdict.UNKNOWN if withheld else Verdict.VIOLATED)
    assert judgement.findings == (0 if withheld else 1)
    if withheld:
        assert "1 finding is withheld" in judgement.reason and "f is bad" in judgement.reason


def test_a_hit_before_the_gap_stands() -> None:
    outcome = run(rule(hit(when=(1, 4)), hit("g", when=(4, 9)), follows_state=True), coverage=LOSSY)
    (finding,) = outcome.findings
    assert finding.when == (1, 4)
    (judgement,) = outcome.judgements
    assert (judgement.verdict, judgement.findings) == (Verdict.VIOLATED, 1)
    assert "1 finding is withheld" in judgement.reason


def test_on_an_input_that_lost_much_nothing_leans_on_anybody() -> None:
    blind = Coverage(severe=True, blind=True)
    assert not run(rule(hit(leans_on=("a",)), follows_state=False), coverage=blind).findings
    assert run(rule(hit(leans_on=()), follows_state=False), coverage=blind).findings


def test_between_the_gaps_of_an_input_that_lost_some_state_is_followed() -> None:
    lossy = Coverage(severe=True, gaps=LOSSY.gaps)
    outcome = run(rule(hit(when=(1, 4)), hit("g", when=(4, 9)), follows_state=True), coverage=lossy)
    assert [finding.when for finding in outcome.findings] == [(1, 4)]
    (silent,) = run(rule(follows_state=True), coverage=lossy).judgements
    assert silent.verdict is Verdict.UNKNOWN  # nothing found, which means nothing here


def test_what_is_withheld_is_no_all_clear() -> None:
    outcome = run(rule(hit(leans_on=("a",)), follows_state=True), coverage=LOSSY)
    assert exit_code(outcome, LOSSY, Severity.MEDIUM) is ExitCode.UNKNOWN
    assert exit_code(outcome, LOSSY, Severity.HIGH) is ExitCode.CLEAN
