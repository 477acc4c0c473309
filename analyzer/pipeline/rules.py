"""Which rules there are, and what each says of itself."""

from __future__ import annotations

from difflib import get_close_matches

import analyzer.rules
import k8s.rules
from analyzer.core.errors import InputError
from analyzer.core.rule import Rule, discover
from analyzer.report import rule_pages


def all_rules() -> list[Rule]:
    """Every rule of the tool, in order of id."""
    return sorted([*discover(analyzer.rules, "RULE", Rule), *object_rules()], key=lambda rule: rule.id)


def object_rules() -> list[Rule]:
    """Every rule about Kubernetes objects, in order of id."""
    return sorted(discover(k8s.rules, "RULE", Rule), key=lambda rule: rule.id)


def operation_rules(witness: str) -> list[Rule]:
    """Rules about operations that this witness saw: `wire` (packets) or `client` (workers), by id."""
    found = (rule for rule in discover(analyzer.rules, "RULE", Rule) if rule.witness == witness)
    return sorted(found, key=lambda rule: rule.id)


def list_rules(as_json: bool = False) -> str:
    """The text of `storage-analyzer rules`: a table for people, or JSON."""
    known = all_rules()
    return rule_pages.to_json(known) if as_json else rule_pages.table(known)


def explain(name: str, decorated: bool = False) -> str:
    """The documentation page of a rule: Markdown, or with colours and boxes if `decorated`.

    Raises `InputError` naming the nearest rules if there is none of that name.
    """
    page = rule_pages.page(find_rule(name, all_rules()))
    return rule_pages.for_terminal(page) if decorated else page


def find_rule(name: str, known: list[Rule]) -> Rule:
    """The rule with that id; capitals and underscores are forgiven.

    Raises `InputError` naming the nearest rules if there is none of that name.
    """
    by_id = {rule.id: rule for rule in known}
    wanted = name.strip().lower().replace("_", "-")
    if wanted in by_id:
        return by_id[wanted]
    parts = set(wanted.split("-"))
    near = get_close_matches(wanted, by_id, n=3) or [i for i in by_id if parts & set(i.split("-"))][:3]
    guess = f" Nearest: {', '.join(near)}." if near else ""
    raise InputError(f"no rule is named {name!r}.{guess} `storage-analyzer rules` lists all.")
