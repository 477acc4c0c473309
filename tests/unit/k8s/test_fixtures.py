"""Manifests with their good twins: each says in its first line what must be found, and nothing else may be.

Findings that are only information are left out, except where a manifest expects one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.core.finding import Severity
from analyzer.pipeline.rules import object_rules
from k8s.audit import audit
from k8s.manifests import read_texts

MANIFESTS = Path(__file__).parents[2] / "manifests"
FILES = sorted(MANIFESTS.glob("*/*.yaml"))
RULES = object_rules()


def expected(text: str) -> list[str]:
    first = text.splitlines()[0].removeprefix("# expect: ")
    return [] if first == "nothing" else first.split(", ")


def test_every_bad_manifest_has_a_good_twin() -> None:
    bad = {path.name for path in FILES if path.parent.name == "bad"}
    good = {path.name for path in FILES if path.parent.name == "good"}
    assert bad == good
    assert len(FILES) >= 60


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_exactly_what_is_expected_is_found(path: Path) -> None:
    text = path.read_text("utf-8")
    wanted = expected(text)
    assert bool(wanted) or path.parent.name == "good"
    found = audit(read_texts({path.name: text}), RULES).outcome
    rules = sorted({f.rule for f in found.findings if f.severity > Severity.INFO or f.rule in wanted})
    assert rules == wanted, [f.title for f in found.findings]
    lines = text.count("\n") + 1
    for finding in found.findings:
        name, _, line = finding.evidence[0].rpartition(":")
        assert name == path.name and 1 < int(line) <= lines
