from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.analysis.uncommitted import UncommittedData
from analyzer.analysis.writes import FOLD
from tests.unit.analysis.folding import fold

offsets, lengths = st.integers(0, 5), st.integers(1, 3)
steps = st.lists(
    st.tuples(
        st.sampled_from(["f", "g"]),
        st.sampled_from(["unstable", "unstable", "file_sync", "all", "part", "close"]),
        st.sampled_from(["aa", "aa", "aa", "bb"]),
        offsets,
        lengths,
    ),
    min_size=1,
    max_size=25,
)


def line(at: int, step: tuple[str, str, str, int, int]) -> str:
    file, what, verifier, offset, length = step
    if what == "close":
        return f"{at}.0..{at}.1 A close {file}"
    if what == "all":
        return f"{at}.0..{at}.1 A commit {file} 0+0 value={verifier}"
    if what == "part":
        return f"{at}.0..{at}.1 A commit {file} {offset}+{length} value={verifier}"
    return f"{at}.0..{at}.1 A write {file} {offset}+{length} {what} value={verifier}"


@settings(deadline=None)
@given(steps, st.lists(st.integers(0, 25), max_size=4))
def test_batches_and_short_cuts_change_nothing(
    given_steps: list[tuple[str, str, str, int, int]], places: list[int]
) -> None:
    """One operation per batch leaves nothing to cut away, so it is the plain reading of the rules."""
    text = "\n".join(line(i, step) for i, step in enumerate(given_steps))
    plain = fold(FOLD, text, UncommittedData, range(1, len(given_steps)))
    cut = fold(FOLD, text, UncommittedData, places)
    order = [(row.object, row.first_ns, row.ended) for row in plain]
    assert sorted(plain, key=str) == sorted(cut, key=str), order
