"""The rule that CONTRIBUTING.md adds is a rule like all others: examples, lint, format."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer.core.rule import Rule
from tests.rules import test_rules

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"<!-- file: (analyzer/rules/\S+)\.py -->\n```python\n(.*?)```", re.S)


def example() -> tuple[str, str]:
    """Path without suffix, and text, of the worked example."""
    (found,) = EXAMPLE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    return found[0], found[1]


@pytest.fixture
def rule(tmp_path: Path) -> Iterator[Rule]:
    place, text = example()
    name = place.replace("/", ".")
    path = tmp_path / f"{name.rpartition('.')[2]}.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        assert isinstance(module.RULE, Rule)
        yield module.RULE
    finally:
        del sys.modules[name]


def test_the_example_is_a_rule_like_all_others(rule: Rule) -> None:
    assert rule.check.__module__.rsplit(".", 1)[1].replace("_", "-") == rule.id
    assert rule.id not in {known.id for known in test_rules.RULES}
    test_rules.test_rule_is_well_formed(rule)
    test_rules.test_bad_examples_fire(rule)
    test_rules.test_good_examples_stay_silent(rule)


def test_the_example_says_the_number(rule: Rule) -> None:
    (finding,) = test_rules.outcome(rule, rule.bad[0]).findings
    assert finding.title == "server server:2049 took up to 2.50 s to close a file"
    assert finding.facts["max_ns"] == 2_500_000_000
    assert finding.evidence == ("example#4",)


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]])
def test_the_example_passes_make_check(check: list[str]) -> None:
    place, text = example()
    done = subprocess.run(
        [Path(sys.executable).parent / "ruff", *check, "--stdin-filename", f"{place}.py", "-"],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
