"""The documentation of rules: one Markdown page per rule, an index of them, a table, and JSON."""

from __future__ import annotations

import io
from collections.abc import Sequence
from textwrap import dedent

import orjson
from rich.console import Console

from analyzer.core.rule import Rule


def page(rule: Rule) -> str:
    """The page of one rule as Markdown, made from its declaration and its module's docstring alone."""
    facts = [
        f"- **Id:** `{rule.id}`",
        f"- **Severity:** {rule.severity}",
        f"- **Confidence:** {rule.confidence} on a complete input",
        f"- **Look first at:** the {rule.blame}",
        f"- **Not exercised without:** {_listed(rule)}",
        f"- **Input that lost much:** {_when_lossy(rule)}",
    ]
    sections = [f"# {rule.title}", "\n".join(facts), rule.documentation]
    if rule.options:
        sections += ["## Options", _options(rule)]
    sections += ["## What to do", rule.remedy]
    language = "yaml" if rule.about == "object" else "text"
    sections += ["## Fires on", *(_fenced(text, language) for text in rule.bad)]
    sections += ["## Stays silent on", *(_fenced(text, language) for text in rule.good)]
    sections += ["## References", "\n".join(f"- {reference}" for reference in rule.references)]
    return "\n\n".join(sections) + "\n"


def index(rules: Sequence[Rule]) -> str:
    """The page that lists all rules, worst first, with links to their pages."""
    ranked = sorted(rules, key=lambda rule: (-rule.severity, rule.id))
    rows = [f"| [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.title} |" for rule in ranked]
    head = [
        "# Rules",
        "",
        "Made by `make docs` from the rules themselves: change a rule's file, not these pages.",
        "`storage-analyzer explain RULE` prints the same text.",
        "",
        "| rule | severity | title |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def table(rules: Sequence[Rule]) -> str:
    """One aligned line per rule: id, severity, title."""
    if not rules:
        return ""
    width = max(len(rule.id) for rule in rules)
    return "".join(f"{rule.id:<{width}}  {rule.severity!s:<8}  {rule.title}\n" for rule in rules)


def to_json(rules: Sequence[Rule]) -> str:
    """A JSON array with one object per rule: everything about it but its code and examples."""
    items = [
        {
            "id": rule.id,
            "title": rule.title,
            "severity": str(rule.severity),
            "confidence": str(rule.confidence),
            "blame": rule.blame.value,
            "about": rule.about,
            "exercised_by": sorted(rule.exercised_by),
            "follows_state": rule.follows_state,
            "options": dict(rule.options),
            "remedy": rule.remedy,
            "references": list(rule.references),
            "documentation": rule.documentation,
        }
        for rule in rules
    ]
    return orjson.dumps(items, option=orjson.OPT_INDENT_2).decode() + "\n"


def for_terminal(markdown: str) -> str:
    """A page as a terminal shows it: headings, lists and examples set off by colour and indent."""
    from rich.markdown import Markdown  # noqa: PLC0415 - slow to load, and only `explain` needs it

    console = Console(file=io.StringIO(), force_terminal=True)
    with console.capture() as captured:
        console.print(Markdown(markdown))
    return captured.get()


def _listed(rule: Rule) -> str:
    kinds = sorted(rule.exercised_by)
    if kinds and kinds[0].startswith("workload "):
        return f"the workload {' or '.join(kind.removeprefix('workload ') for kind in kinds)}"
    return f"{', '.join(kinds)} {rule.about}s" if kinds else "anything"


def _when_lossy(rule: Rule) -> str:
    if rule.follows_state:
        return "verdict *unknown*: a finding leans on having seen everything"
    if rule.about == "object":
        return "still judged: each finding stands on the objects that it cites"
    return "still judged: each finding stands on the frames that it cites"


def _options(rule: Rule) -> str:
    rows = [f"| `--set {rule.id}.{name}=` | {value} |" for name, value in sorted(rule.options.items())]
    return "\n".join(["| option | default |", "|---|---|", *rows])


def _fenced(example: str, language: str) -> str:
    return f"```{language}\n" + dedent(example).strip() + "\n```"
