"""Writes the pages that are made from the code: `make docs`.

* `docs/rules/`: a page for every rule and an index, from the rules' own declarations.
* `README.md`: each block between `<!-- help: COMMAND -->` and `<!-- /help -->`, from `COMMAND --help`.

A test (`tests/unit/test_docs.py`) fails while a file differs from what this module would write.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from analyzer import pipeline
from analyzer.core.rule import Rule
from analyzer.report import rule_pages

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "docs" / "rules"
README = ROOT / "README.md"
_HELP = re.compile(
    r"(?P<open><!-- help: storage-analyzer ?(?P<command>.*?) -->\n).*?(?P<close><!-- /help -->)", re.S
)


def rule_files(rules: Sequence[Rule]) -> dict[Path, str]:
    """What `docs/rules/` should hold: text by path."""
    pages = {RULES / f"{rule.id}.md": rule_pages.page(rule) for rule in rules}
    return {RULES / "README.md": rule_pages.index(rules), **pages}


def with_help(text: str) -> str:
    """The same text with every help block renewed."""
    return _HELP.sub(lambda m: f"{m['open']}```text\n{help_of(m['command'])}```\n{m['close']}", text)


def help_of(command: str) -> str:
    """What `storage-analyzer COMMAND --help` prints on a terminal of 80 columns."""
    done = subprocess.run(
        [sys.executable, "-m", "analyzer", *command.split(), "--help"],
        env={**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def main() -> None:
    """Write everything; pages of rules that are gone are removed."""
    files = {**rule_files(pipeline.all_rules()), README: with_help(README.read_text("utf-8"))}
    for stale in set(RULES.glob("*.md")) - set(files):
        stale.unlink()
    for path, text in files.items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
