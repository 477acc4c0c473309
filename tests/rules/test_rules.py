"""One generic test over every rule: its examples, its words, its columns."""

from __future__ import annotations

import re

import pytest

import analyzer.analysis
from analyzer.core.coverage import Coverage
from analyzer.core.finding import Blame, Verdict
from analyzer.core.notation import parse_events
from analyzer.core.operations import validate
from analyzer.core.rule import Fold, Outcome, Rule, discover, folds_for, judge, run_folds
from analyzer.core.schema import SCHEMA_OF
from analyzer.core.table import Tables
from analyzer.pipeline.rules import all_rules
from k8s.audit import audit_text

RULES = all_rules()
FOLDS = discover(analyzer.analysis, "FOLD", Fold)


def outcome(rule: Rule, text: str) -> Outcome:
    """What the engine says of one example: operations in the notation, or objects in YAML."""
    if rule.about == "object":
        return audit_text([rule], text).outcome
    batch = parse_events(text, rule.witness)
    validate(batch, SCHEMA_OF[rule.witness])
    tables = Tables()
    kinds = run_folds([batch], folds_for([rule], FOLDS), tables)
    return judge([rule], tables, Coverage(), kinds)


def test_ids_are_unique_and_equal_the_file_names() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
    for rule in RULES:
        assert rule.check.__module__.rsplit(".", 1)[1].replace("_", "-") == rule.id


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_rule_is_well_formed(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.id)
    assert rule.title and not rule.title.endswith(".")
    assert rule.remedy.strip().endswith((".", "`")), "the remedy is a whole sentence"
    assert isinstance(rule.blame, Blame), "a rule says where to look first"
    assert rule.references, "a rule says where its facts come from"
    assert len(rule.documentation) > 200, "what it checks, why it matters, when it is wrong"
    assert rule.bad and rule.good, "a rule shows a case that fires and a near twin that doesn't"


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_bad_examples_fire(rule: Rule) -> None:
    for text in rule.bad:
        result = outcome(rule, text)
        assert result.findings, f"no finding in:\n{text}\n{result.judgements}"
        for finding in result.findings:
            assert finding.title and finding.remedy and finding.evidence
            assert finding.subject.name


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_good_examples_stay_silent(rule: Rule) -> None:
    for text in rule.good:
        result = outcome(rule, text)
        assert not result.findings, f"{result.findings[0].title}\n{text}"
        assert result.judgements[0].verdict is Verdict.UPHELD, result.judgements[0].reason
