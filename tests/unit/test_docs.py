"""The pages that are made from the code are those in the repository, and what documents link to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generate

ROOT = generate.ROOT
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def test_pages_are_those_that_make_docs_writes() -> None:
    wanted = generate.files()
    for path, text in wanted.items():
        assert path.exists(), f"{path.name} is missing: run `make docs`"
        assert path.read_text("utf-8") == text, f"{path.name} is stale: run `make docs`"
    assert set(generate.RULES.glob("*.md")) <= set(wanted), "a rule is gone: run `make docs`"


def test_the_readme_shows_help() -> None:
    text = generate.README.read_text("utf-8")
    assert text.count("<!-- help: ") == text.count("<!-- /help -->") > 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text("utf-8")):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"
