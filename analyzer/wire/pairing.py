"""Replies to their calls: by connection, direction and transaction id (RFC 5531, section 9)."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyzer.wire.packets import Int64s

#: Answered calls that are remembered, to tell a call that is sent again from a new one.
_RECENT: Final = 20_000


class Pairing:
    """Calls that wait for their reply, over all blocks of a share. A call is known by a number that its
    owner gives it; `key` says connection, direction and transaction id in one integer."""

    def __init__(self) -> None:
        self.pending: dict[int, int] = {}  # key → number of the call
        self.attempts: dict[int, int] = {}  # number of a call that was sent again → how often
        self.sent_again = 0
        self.unmatched: Counter[int] = Counter()  # replies without a call, by connection
        self._recent: set[int] = set()
        self._older: set[int] = set()

    def match(self, keys: Int64s, calls: NDArray[np.bool_], first: int, connections: Int64s) -> Int64s:
        """(call, reply) of each reply whose call is known, in order of the replies.

        `keys` are those of a block's messages in order; calls are numbered from `first` on, replies
        from 0.
        """
        numbers = np.where(calls, np.cumsum(calls) - 1 + first, np.cumsum(~calls) - 1)
        simple, rest = self._simple(keys, calls)
        pairs = [numbers[simple]]
        found: list[tuple[int, int]] = []
        for place in rest.tolist():
            key, number = int(keys[place]), int(numbers[place])
            if calls[place]:
                self._call(key, number)
            elif not self._reply(key, number, found):
                self.unmatched[int(connections[place])] += 1
        pairs.append(np.array(found, dtype=np.int64).reshape(-1, 2))
        self._recent.update(keys[simple[:, 1]].tolist())
        if len(self._recent) > _RECENT:
            self._recent, self._older = set(), self._recent
        together = np.concatenate(pairs)
        ordered: Int64s = together[np.argsort(together[:, 1], kind="stable")]
        return ordered

    def _simple(self, keys: Int64s, calls: NDArray[np.bool_]) -> tuple[Int64s, Int64s]:
        """Places of keys that hold one call and, after it, one reply (nearly all), and the others."""
        order = np.argsort(keys, kind="stable")
        sorted_keys = keys[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = np.diff(sorted_keys) != 0
        begins = np.flatnonzero(new)
        sizes = np.diff(np.append(begins, len(order)))
        twos = begins[sizes == 2]
        twos = twos[calls[order[twos]] & ~calls[order[twos + 1]]]
        asked = set(sorted_keys[twos].tolist())
        known = (asked & self.pending.keys()) | (asked & self._recent) | (asked & self._older)
        if known:
            twos = twos[~np.isin(sorted_keys[twos], list(known))]
        simple = np.stack([order[twos], order[twos + 1]], axis=1)
        others = np.ones(len(keys), dtype=bool)
        others[simple.ravel()] = False
        return simple, np.flatnonzero(others)

    def _answered(self, key: int) -> bool:
        return key in self._recent or key in self._older

    def _call(self, key: int, number: int) -> None:
        waiting = self.pending.get(key)
        if waiting is not None:
            self.attempts[waiting] = self.attempts.get(waiting, 1) + 1
            self.sent_again += 1
        elif self._answered(key):
            self.sent_again += 1  # its answer had been seen: the client missed it
        else:
            self.pending[key] = number

    def _reply(self, key: int, number: int, found: list[tuple[int, int]]) -> bool:
        """False for a reply to a call that was never seen."""
        waiting = self.pending.pop(key, None)
        if waiting is None:
            return self._answered(key)
        found.append((waiting, number))
        self._recent.add(key)
        return True

    def renumber(self, most: int) -> tuple[Int64s, int]:
        """Give up the oldest calls beyond `most`; number the others from 0. Returns their old numbers, in
        order of the new ones, and how many were given up."""
        given_up = max(0, len(self.pending) - most)
        for key in list(self.pending)[:given_up]:
            del self.pending[key]
        old = np.fromiter(self.pending.values(), dtype=np.int64, count=len(self.pending))
        number = {before: now for now, before in enumerate(old.tolist())}
        self.pending = {key: number[before] for key, before in self.pending.items()}
        self.attempts = {number[b]: n for b, n in self.attempts.items() if b in number}
        return old, given_up
