from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.analysis.stalls import FOLD, MIN_STALL_NS, Stall
from tests.unit.analysis.folding import fold

NS = 1_000_000_000
TENTH = NS // 10
# (server, start, duration), in tenths of a second; None is a call that is never answered
calls = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 200), st.one_of(st.none(), st.integers(0, 60))),
    max_size=40,
)


def by_brute_force(spans: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(start, end, outstanding) of each silence between consecutive replies."""
    ends = sorted({end for _, end in spans})
    found = []
    for before, after in zip([-1, *ends], ends, strict=False):
        waiting = [start for start, end in spans if end >= after and start < after]
        if waiting:
            begin = max(before, min(waiting))
            if (after - begin) * TENTH >= MIN_STALL_NS:
                found.append((begin, after, len(waiting)))
    return found


@settings(deadline=None)
@given(calls, st.lists(st.integers(0, 40), max_size=5))
def test_the_sweep_agrees_with_brute_force_however_the_batches_are_cut(
    given_calls: list[tuple[int, int, int | None]], places: list[int]
) -> None:
    lines: list[str] = []
    spans: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for server, start, lasts in given_calls:
        end = "" if lasts is None else f"{(start + lasts) / 10:.1f}"
        lines.append(f"{start / 10:.1f}..{end} A read f endpoint=server{server}:2049")
        if lasts is not None:
            spans[server].append((start, start + lasts))
    rows = fold(FOLD, "\n".join(lines), Stall, places)
    for server in (0, 1):
        found = [
            (row.start_ns // TENTH, row.end_ns // TENTH, row.outstanding)
            for row in rows
            if row.endpoint == f"server{server}:2049"
        ]
        assert sorted(found) == by_brute_force(spans[server])
