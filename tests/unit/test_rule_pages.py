"""`rules` and `explain`: finding a rule by name, and its page."""

from __future__ import annotations

import pytest

from analyzer.core.errors import InputError
from analyzer.core.finding import Blame, Confidence, Severity
from analyzer.core.rule import Rule
from analyzer.pipeline import rules as pipeline
from analyzer.report import rule_pages


def rule(name: str, **changes: object) -> Rule:
    fields: dict[str, object] = {
        "id": name,
        "title": f"About {name}",
        "severity": Severity.HIGH,
        "confidence": Confidence.HIGH,
        "blame": Blame.CLIENT,
        "reads": (),
        "check": lambda case: (),
        "remedy": "Set `hard`.",
        "references": ("RFC 8881, section 9.6",),
        "bad": ("\n0..1 B lock f 0+10 write -> DENIED\n",),
        "good": ("0..1 B lock f 0+10 write",),
        **changes,
    }
    return Rule(**fields)  # type: ignore[arg-type]  # keyword by keyword, as the tests below name them


KNOWN = [rule("lock-long-wait"), rule("lock-deadlock-cycle"), rule("server-restart")]


@pytest.mark.parametrize("name", ["lock-long-wait", "Lock_Long_Wait", " lock-long-wait "])
def test_a_rule_is_found_in_spite_of_capitals_and_underscores(name: str) -> None:
    assert pipeline.find_rule(name, KNOWN) is KNOWN[0]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("lock-long-wiat", "Nearest: lock-long-wait"),
        ("restart", "Nearest: server-restart"),
        ("deadlock-found", "Nearest: "),
    ],
)
def test_an_unknown_name_gets_the_nearest(name: str, near: str) -> None:
    with pytest.raises(InputError, match=near):
        pipeline.find_rule(name, KNOWN)


def test_a_name_like_no_other_gets_the_list() -> None:
    with pytest.raises(InputError) as caught:
        pipeline.find_rule("zzz", KNOWN)
    assert str(caught.value) == "no rule is named 'zzz'. `storage-analyzer rules` lists all."


def test_the_page_says_everything() -> None:
    text = rule_pages.page(rule("lock-long-wait", options={"wait_ns": 5}, exercised_by=frozenset({"lock"})))
    for part in (
        "# About lock-long-wait",
        "**Severity:** high",
        "**Not exercised without:** lock operations",
        (__doc__ or "").strip(),
        "| `--set lock-long-wait.wait_ns=` | 5 |",
        "## What to do\n\nSet `hard`.",
        "## Fires on\n\n```text\n0..1 B lock f 0+10 write -> DENIED\n```",
        "## Stays silent on\n\n```text\n0..1 B lock f 0+10 write\n```",
        "- RFC 8881, section 9.6",
    ):
        assert part in text


def test_the_page_says_what_a_lossy_input_means() -> None:
    assert "verdict *unknown*" in rule_pages.page(rule("a", follows_state=True))
    assert "still judged" in rule_pages.page(rule("a", follows_state=False))


def test_the_index_is_worst_first() -> None:
    text = rule_pages.index(
        [rule("a", severity=Severity.LOW), rule("b"), rule("c", severity=Severity.CRITICAL)]
    )
    assert text.index("[c](c.md)") < text.index("[b](b.md)") < text.index("[a](a.md)")


def test_the_table_is_aligned() -> None:
    assert (
        rule_pages.table([rule("a"), rule("abc")]) == "a    high      About a\nabc  high      About abc\n"
    )
    assert rule_pages.table([]) == ""


def test_the_terminal_shows_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = rule_pages.for_terminal(rule_pages.page(KNOWN[0]))
    assert "About lock-long-wait" in shown
    assert "\x1b[" in shown
