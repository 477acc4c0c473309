"""Writes the pages that are made from the code: `make docs`.

* `docs/rules/`: a page for every rule and an index, from the rules' own declarations.
* `docs/commands.md`: the help of every command.
* `README.md`: each block between `<!-- help: COMMAND -->` and `<!-- /help -->`, from `COMMAND --help`.

A test (`tests/unit/test_docs.py`) fails while a file differs from what this module would write.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer
from typer.core import TyperGroup

from analyzer import cli
from analyzer.core.rule import Rule
from analyzer.pipeline.rules import all_rules
from analyzer.report import rule_pages

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "docs" / "rules"
README = ROOT / "README.md"
COMMANDS = ROOT / "docs" / "commands.md"
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


def command_names(command: object, before: str = "") -> Iterator[str]:
    """`capture`, `lab up` ...: every command, those of groups too."""
    if not isinstance(command, TyperGroup):
        yield before.strip()
        return
    for name, inner in command.commands.items():
        yield from command_names(inner, f"{before} {name}")


def command_page() -> str:
    """What `docs/commands.md` should hold."""
    parts = ["# Commands", "Made by `make docs` from the commands themselves."]
    for name in sorted(command_names(typer.main.get_command(cli.app))):
        parts += [f"## storage-analyzer {name}", f"```text\n{help_of(name)}```"]
    return "\n\n".join(parts) + "\n"


def files() -> dict[Path, str]:
    """Everything that is made from the code: text by path."""
    readme = with_help(README.read_text("utf-8"))
    return {**rule_files(all_rules()), COMMANDS: command_page(), README: readme}


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
    wanted = files()
    for stale in set(RULES.glob("*.md")) - set(wanted):
        stale.unlink()
    for path, text in wanted.items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
