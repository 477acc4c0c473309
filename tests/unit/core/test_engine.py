"""The engine: what each verdict takes, what lowers a confidence, and that no rule takes the others down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analyzer.core.coverage import Coverage, Loss, Note
from analyzer.core.errors import InputError, PremiseError
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject, Verdict
from analyzer.core.notation import parse_events
from analyzer.core.operations import column_list
from analyzer.core.rule import (
    Case,
    Fold,
    Outcome,
    Rule,
    discover,
    folds_for,
    judge,
    parse_options,
    run_folds,
)
from analyzer.core.table import Tables

COMPLETE = Coverage()
SEVERE = Coverage(severe=True, blind=True)


@dataclass(frozen=True, slots=True)
class OpenSeen:
    file: str
    slot: int | None


class _Opens:
    """Writes a row per OPEN; remembers what it was fed."""

    def __init__(self, tables: Tables) -> None:
        self.rows = tables.of(OpenSeen)
        self.fed: list[list[str]] = []
        self.last: str | None = None

    def feed(self, batch: pa.RecordBatch) -> None:
        self.fed.append(batch.schema.names)
        for name in column_list(batch.column("object")):
            self.rows.append(OpenSeen(name, None))
            self.last = name

    def finish(self) -> None:
        self.rows.append(OpenSeen(f"last {self.last}", 1))


OPENS = Fold("opens", ("object",), (OpenSeen,), _Opens, kinds=frozenset({"open"}))


def hit(name: str = "f", **changes: Any) -> Hit:
    return replace(
        Hit(Subject("file", name), f"{name} is bad", evidence=("a#1", "a#2"), when=(5, 6)), **changes
    )


def rule(*hits: Hit, **changes: Any) -> Rule:
    def check(case: Case) -> Iterator[Hit]:
        yield from hits

    made = Rule(
        id="test-rule",
        title="Something is bad",
        severity=Severity.MEDIUM,
        confidence=Confidence.HIGH,
        blame=Blame.SERVER,
        reads=(),
        check=check,
        remedy="Mend it.",
        references=("RFC 8881",),
        bad=(),
        good=(),
    )
    return replace(made, **changes)


def run(*rules: Rule, coverage: Coverage = COMPLETE, kinds: dict[str, int] | None = None) -> Outcome:
    return judge(rules, Tables(), coverage, kinds or {})


def verdict(*rules: Rule, coverage: Coverage = COMPLETE, kinds: dict[str, int] | None = None) -> Verdict:
    (judgement,) = run(*rules, coverage=coverage, kinds=kinds).judgements
    return judgement.verdict


def test_a_hit_becomes_a_finding_with_what_the_rule_declares() -> None:
    outcome = run(rule(hit(facts={"wait_ns": 7})))
    (finding,) = outcome.findings
    assert (finding.rule, finding.severity, finding.confidence) == (
        "test-rule",
        Severity.MEDIUM,
        Confidence.HIGH,
    )
    assert (finding.title, finding.remedy, finding.docs) == (
        "f is bad",
        "Mend it.",
        "docs/rules/test-rule.md",
    )
    assert (finding.evidence, finding.when, finding.facts) == (("a#1", "a#2"), (5, 6), {"wait_ns": 7})
    assert outcome.judgements[0].findings == 1
    assert outcome.judgements[0].verdict is Verdict.VIOLATED


def test_a_hit_may_bring_its_own_severity_and_remedy() -> None:
    (finding,) = run(rule(hit(severity=Severity.INFO, remedy="Do this instead."))).findings
    assert (finding.severity, finding.remedy) == (Severity.INFO, "Do this instead.")


def test_silence_is_upheld_only_on_a_whole_input() -> None:
    assert verdict(rule()) is Verdict.UPHELD
    assert verdict(rule(follows_state=False), coverage=SEVERE) is Verdict.UNKNOWN


def test_nothing_to_look_at_is_not_exercised() -> None:
    needs_locks = rule(hit(), exercised_by=frozenset({"lock", "unlock"}))
    (judgement,) = run(needs_locks, kinds={"open": 3, "lock": 0}).judgements
    assert judgement.verdict is Verdict.NOT_EXERCISED
    assert judgement.reason == "no lock, unlock operation was seen"
    assert verdict(needs_locks, kinds={"unlock": 1}) is Verdict.VIOLATED


def test_nothing_seen_on_an_input_that_lost_much_is_unknown() -> None:
    (judgement,) = run(rule(exercised_by=frozenset({"lock"})), coverage=SEVERE).judgements
    assert judgement.verdict is Verdict.UNKNOWN
    assert "too much of the traffic is missing" in judgement.reason


def test_a_rule_that_follows_state_is_unknown_on_an_input_that_lost_much() -> None:
    outcome = run(rule(hit(), follows_state=True), coverage=SEVERE)
    assert outcome.judgements[0].verdict is Verdict.UNKNOWN
    assert outcome.findings == ()


def test_a_rule_whose_hits_stand_alone_is_judged_on_an_input_that_lost_much() -> None:
    outcome = run(rule(hit(), follows_state=False), coverage=SEVERE)
    assert outcome.judgements[0].verdict is Verdict.VIOLATED
    assert outcome.findings[0].confidence is Confidence.MEDIUM


@pytest.mark.parametrize(
    ("loss", "complete", "confidence"),
    [
        (None, True, Confidence.HIGH),
        (Loss.MID_END, True, Confidence.HIGH),
        (Loss.FILTERED, True, Confidence.HIGH),
        (Loss.GAP, True, Confidence.MEDIUM),
        (Loss.MID_START, True, Confidence.MEDIUM),
        (None, False, Confidence.MEDIUM),
        (Loss.GAP, False, Confidence.LOW),
    ],
)
def test_loss_lowers_confidence(loss: Loss | None, complete: bool, confidence: Confidence) -> None:
    coverage = Coverage(notes=(Note("something", loss),))
    (finding,) = run(rule(hit(complete=complete)), coverage=coverage).findings
    assert finding.confidence is confidence


def test_confidence_never_falls_below_low() -> None:
    assert Confidence.LOW.lowered() is Confidence.LOW


def test_a_rule_that_raises_is_unknown_and_the_others_go_on() -> None:
    def broken(case: Case) -> Iterator[Hit]:
        yield hit("half")
        raise ZeroDivisionError("by nought")

    outcome = run(rule(id="broken", check=broken), rule(hit(), id="works"))
    first, second = outcome.judgements
    assert (first.rule, first.verdict) == ("broken", Verdict.UNKNOWN)
    assert "ZeroDivisionError: by nought (broken, line " in first.reason
    assert second.verdict is Verdict.VIOLATED
    assert [f.rule for f in outcome.findings] == ["works"], "half an answer is none"


def test_a_broken_premise_is_unknown_with_its_own_words() -> None:
    def unsure(case: Case) -> Iterator[Hit]:
        raise PremiseError("two servers share one address; capture on the server to tell them apart")

    (judgement,) = run(rule(check=unsure)).judgements
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.reason == "two servers share one address; capture on the server to tell them apart"


def test_options_reach_the_rule() -> None:
    seen: list[dict[str, int | float]] = []

    def check(case: Case) -> Iterator[Hit]:
        seen.append(dict(case.options))
        return iter(())

    made = rule(check=check, options={"wait_ns": 5, "count": 2})
    judge([made], Tables(), COMPLETE, {}, {"test-rule": {"count": 9}, "another": {"wait_ns": 1}})
    assert seen == [{"wait_ns": 5, "count": 9}]


def test_findings_are_sorted_worst_first_then_surest_then_earliest() -> None:
    rules = [
        rule(hit("late", when=(9, 9)), hit("early", when=(1, 1)), hit("no time", when=None), id="b"),
        rule(hit("unsure", complete=False), hit("bad", severity=Severity.CRITICAL), id="c"),
        rule(hit("sure"), id="a"),
    ]
    names = [finding.subject.name for finding in run(*rules).findings]
    assert names == ["bad", "no time", "early", "sure", "late", "unsure"]
    assert [f.subject.name for f in run(*reversed(rules)).findings] == names
    assert [j.rule for j in run(*rules).judgements] == ["a", "b", "c"]


def test_folds_get_their_columns_of_their_operations_once() -> None:
    tables = Tables()
    walks: list[_Opens] = []

    def start(tables: Tables) -> _Opens:
        walks.append(_Opens(tables))
        return walks[-1]

    batches = [
        parse_events("0 A open f\n1 A read f"),
        parse_events("2 A read f"),
        parse_events("3 A open g"),
    ]
    kinds = run_folds(batches, [replace(OPENS, start=start)], tables)
    assert kinds == {"open": 2, "read": 2}
    assert walks[0].fed == [["object"], ["object"]]
    assert list(tables.of(OpenSeen)) == [OpenSeen("f", None), OpenSeen("g", None), OpenSeen("last g", 1)]


def test_a_fold_without_input_still_finishes() -> None:
    tables = Tables()
    assert not run_folds([], [OPENS], tables)
    assert list(tables.of(OpenSeen)) == [OpenSeen("last None", 1)]


def test_only_the_folds_that_the_rules_need_run() -> None:
    other = replace(OPENS, name="other", produces=(int,))
    assert folds_for([rule(reads=(OpenSeen,)), rule(reads=(OpenSeen,))], [other, OPENS]) == [OPENS]
    assert folds_for([rule()], [other, OPENS]) == []
    with pytest.raises(LookupError, match="test-rule reads OpenSeen: no fold produces it"):
        folds_for([rule(reads=(OpenSeen,))], [other])


OPTIONAL = [rule(id="lock-long-wait", options={"wait_ns": 5, "share": 0.5}), rule(id="other")]


def test_settings_are_parsed() -> None:
    chosen = parse_options(["lock-long-wait.wait_ns=7", "lock-long-wait.share=0.25"], OPTIONAL)
    assert chosen == {"lock-long-wait": {"wait_ns": 7, "share": 0.25}}
    assert parse_options([], OPTIONAL) == {}


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("20s", 20_000_000_000),
        ("150ms", 150_000_000),
        ("2 min", 120_000_000_000),
        ("1.5µs", 1500),
        ("0", 0),
    ],
)
def test_an_option_that_is_a_time_takes_a_unit(text: str, ns: int) -> None:
    chosen = parse_options([f"lock-long-wait.wait_ns={text}"], OPTIONAL)
    assert chosen == {"lock-long-wait": {"wait_ns": ns}}


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("lock-long-wait.wait=7", "Known: lock-long-wait.share, lock-long-wait.wait_ns"),
        ("nosuch.wait_ns=7", "no such option"),
        ("wait_ns=7", "no such option"),
        ("lock-long-wait.wait_ns", "no such option"),
        ("other.wait_ns=1", "rule other has no options"),
        ("lock-long-wat.wait_ns=1", "Nearest: lock-long-wait.wait_ns"),
        ("lock-long-wait.wait_ns=soon", "'soon' is not a number in ns, or a time such as 20s"),
        ("lock-long-wait.wait_ns=", "'' is not a number in ns"),
        ("lock-long-wait.wait_ns=1.2.3", "'1.2.3' is not a number in ns"),
        ("lock-long-wait.wait_ns=-5", "'-5' is not a number in ns"),
        ("lock-long-wait.wait_ns=5d", "'5d' is not a number in ns"),
        ("lock-long-wait.share=5s", "'5s' is not a number, from 0 on"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(setting: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_options([setting], OPTIONAL)
    assert setting in str(caught.value)
    assert says in str(caught.value)


def test_discovery_walks_a_package_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "found_here" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "found_here" / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("")
    (inner / "one.py").write_text("ITEM = 1\n")
    (tmp_path / "found_here" / "alpha.py").write_text("ITEM = 2\n")
    (tmp_path / "found_here" / "none.py").write_text("OTHER = 3\n")
    (tmp_path / "found_here" / "wrong.py").write_text("ITEM = 'not a number'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    package = __import__("found_here")
    assert discover(package, "ITEM", int) == [2, 1]
    for name in [n for n in sys.modules if n.startswith("found_here")]:
        monkeypatch.delitem(sys.modules, name)


def test_documentation_is_the_docstring_of_the_rules_module() -> None:
    assert rule().documentation == __doc__
