"""The current file handle through a COMPOUND: which handle each operation works on, and its name."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.wire.grammar import Step
from analyzer.wire.protocols import nfs4


@dataclass(frozen=True, slots=True)
class Handles:
    """Where the file handles of a call's operations come from: `(source, position)` for each
    operation, source being one of the constants below and position an operation of the same COMPOUND.

    `current`: the handle that the operation works on. `parent`: the handle that its name is relative
    to. `found`: the position of the GETFH that tells the handle which the operation made current, or
    -1. `names`: the positions of the operations whose names lead from `parent` to it."""

    current: tuple[tuple[int, int], ...]
    parent: tuple[tuple[int, int], ...]
    found: tuple[int, ...]
    names: tuple[tuple[int, ...], ...]


NO_HANDLE, FROM_CALL, FROM_REPLY, ROOT = 0, 1, 2, 3


def handles(steps: tuple[Step, ...]) -> Handles:
    """Follow the current and the saved file handle through a COMPOUND (RFC 8881 16.2.3.1)."""
    walk = _HandleWalk(len(steps))
    for k, step in enumerate(steps):
        walk.step(k, step)
    # an OPEN by name works on the file that it opened
    for k, step in enumerate(steps):
        if _opens_by_name(step):
            at = walk.found[k]
            walk.current[k] = (FROM_REPLY, at) if at >= 0 else (NO_HANDLE, 0)
    return Handles(tuple(walk.current), tuple(walk.parent), tuple(walk.found), tuple(walk.names))


class _HandleWalk:
    """The current handle, the saved one, and the last known one with the names walked since."""

    def __init__(self, count: int) -> None:
        self.current: list[tuple[int, int]] = []
        self.parent: list[tuple[int, int]] = []
        self.found = [-1] * count
        self.names: list[tuple[int, ...]] = [()] * count
        self.here = self.saved = self.anchor = (NO_HANDLE, 0)
        self.trail: tuple[int, ...] = ()
        self.walked: list[int] = []  # operations whose result is the handle that is current now

    def step(self, k: int, step: Step) -> None:
        """Take the `k`-th operation."""
        before, number = self.here, step.number
        self.parent.append(before)
        if number in (nfs4.PUTFH, nfs4.PUTROOTFH, nfs4.PUTPUBFH):
            root = number != nfs4.PUTFH
            self.here, self.walked = ((ROOT, 0), [k]) if root else ((FROM_CALL, k), [])
            before = self.here
        elif number == nfs4.SAVEFH:
            self.saved = before
        elif number == nfs4.RESTOREFH:
            self.here, self.walked = self.saved, []
        elif number == nfs4.GETFH:
            for w in self.walked:
                self.found[w] = k
            self.here, self.walked = (FROM_REPLY, k), []
            before = self.here
        elif number in (nfs4.LOOKUPP, nfs4.OPENATTR):
            self.anchor, self.trail = (NO_HANDLE, 0), ()
            self.here, self.walked = (NO_HANDLE, 0), [k]
        elif number in (nfs4.LOOKUP, nfs4.CREATE) or _opens_by_name(step):
            self._name(k, before)
        elif number in (nfs4.RENAME, nfs4.LINK):
            self.parent[k] = self.saved
        self.current.append(before)

    def _name(self, k: int, before: tuple[int, int]) -> None:
        if before[0] != NO_HANDLE:
            self.anchor, self.trail = before, (k,)
        elif self.anchor[0] != NO_HANDLE:
            self.trail = (*self.trail, k)
        self.parent[k], self.names[k] = self.anchor, self.trail
        self.here, self.walked = (NO_HANDLE, 0), [k]


def _opens_by_name(step: Step) -> bool:
    return step.number == nfs4.OPEN and any(part.name == "name" for part in step.parts)
