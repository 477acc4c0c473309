"""`--redact`: no original value survives in any format; the same thing keeps the same token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzer.core.coverage import Coverage
from analyzer.core.rule import Outcome
from analyzer.core.table import Tables
from analyzer.report.format import formats
from analyzer.report.redact import Redactor
from tests.unit.report.sample import ATTACKS, Names, coverage, fill, hostile_names, outcome, sample_view

FORMATS = formats()


@pytest.mark.parametrize("name", FORMATS)
def test_no_original_value_survives(name: str) -> None:
    rendered = FORMATS[name].render(sample_view(redact=True))
    text = rendered.decode() if isinstance(rendered, bytes) else rendered
    for secret in Names().secrets():
        assert secret not in text, secret
    plain = FORMATS[name].render(sample_view())
    shown = plain.decode() if isinstance(plain, bytes) else plain
    assert Names().labels[0] in shown, "the check itself sees values where nothing is masked"


@pytest.mark.parametrize("attack", [a for a in ATTACKS if len(a) < 100], ids=ascii)
def test_hostile_names_are_masked_too(attack: str) -> None:
    view = sample_view(hostile_names(attack), redact=True)
    for name, item in FORMATS.items():
        rendered = item.render(view)
        text = rendered.decode() if isinstance(rendered, bytes) else rendered
        for form in (attack, attack.encode("unicode_escape").decode()):
            assert form not in text, name


def test_the_same_thing_gets_the_same_token_everywhere() -> None:
    view = sample_view(redact=True)
    title = view.findings[1].title
    assert title == (
        "client 192.0.2.3 waited 7.01 s for a write lock on /file-1: 5.50 s behind client 192.0.2.1's "
        "hold, 1.51 s of its own back-off after the release"
    )
    assert view.waits[2].client == "192.0.2.3" and view.waits[2].holder_client == "192.0.2.1"
    assert view.waits[2].path == "/file-1" == view.timelines[1].file
    labels = {row.label: row.addresses for row in view.clients}
    assert labels["192.0.2.3"] == ("192.0.2.3",)
    assert view.clients[0].connections == ("192.0.2.1:900>192.0.2.2:2049",)
    assert view.clients[3].label.startswith("2001:db8::")
    assert view.coverage.inputs == ("capture-1.pcapng",) and view.title == "capture-1.pcapng"
    assert all(r.startswith("capture-1.pcapng#") for f in view.findings for r in f.evidence)
    assert view.findings[0].fingerprint != sample_view().findings[0].fingerprint


def test_numbers_verdicts_and_advice_stay() -> None:
    plain, masked = sample_view(), sample_view(redact=True)
    assert "/etc/ganesha/ganesha.conf" in masked.findings[0].remedy
    assert [j.verdict for j in masked.judgements] == [j.verdict for j in plain.judgements]
    assert [f.facts["wait_ns"] for f in masked.findings] == [f.facts["wait_ns"] for f in plain.findings]
    assert masked.findings[1].docs == "docs/rules/lock-long-wait.md"


def redactor(*learned: tuple[str, str]) -> Redactor:
    found = Redactor.of(Outcome((), ()), Coverage(), Tables())
    for value, category in learned:
        found.learn(value, category)
    return found


def test_longest_value_wins_and_words_stay_whole() -> None:
    found = redactor(("/export", "file"), ("/export/a b", "file"), ("ab", "client"))
    assert found.mask("open /export/a b, then /export; cable ab", "title") == (
        "open /file-1, then /file-2; cable client-1"
    )


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("from 10.1.2.3:700 to fe80::1", "from 192.0.2.1:700 to 2001:db8::1"),
        (
            "at 12:34:56 NFSv4.1 read/write 5 of 7 in 1.2.3",
            "at 12:34:56 NFSv4.1 read/write 5 of 7 in 1.2.3",
        ),
        ("wrote '/data/x y' twice", "wrote '/file-1 y' twice"),
    ],
)
def test_what_looks_like_an_address_or_a_path_is_masked(text: str, masked: str) -> None:
    assert redactor().mask(text, "title") == masked


def test_a_token_is_never_an_original() -> None:
    found = redactor(("192.0.2.1", "host"), ("client-1", "client"))
    assert found.mask("192.0.2.1 client-1", "title") == "192.0.2.2 client-2"


def test_own_words_and_plain_numbers_stay() -> None:
    found = redactor(("lock", "file"), ("12", "owner"), ("Linux NFSv4.1 hosta", "identity"))
    assert found.mask("lock 12 of hosta", "title") == "lock 12 of host-1"


def test_masking_knows_columns_of_any_table() -> None:
    names = Names()
    tables = Tables()
    fill(tables, names)
    found = Redactor.of(outcome(names), replace(coverage(names), notes=()), tables)
    assert found.mask(f"data.db by {names.owner}", "title") == "name-1 by owner-1"


def test_an_address_has_one_token_with_its_kind_and_without() -> None:
    redactor = Redactor()
    redactor.learn("client 10.1.2.3", "client")
    redactor.learn("10.1.2.4", "client")
    redactor.learn("server 10.1.2.5:2049", "host")
    masked = redactor.mask("client 10.1.2.3 waited for client 10.1.2.4 at server 10.1.2.5:2049", "title")
    assert masked == "client 192.0.2.1 waited for client 192.0.2.2 at server 192.0.2.3:2049"
    assert redactor.mask("10.1.2.3", "client") == "192.0.2.1"
