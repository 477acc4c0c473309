"""What is known of Wireshark's fields without Wireshark: names, types, nearest names, and which of
them stand in calls only or in replies only.

`fields.txt` beside this module lists the fields of the families that matter here, taken from
`tshark -G fields` of Wireshark 4.0.17. A name of another family is not judged.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Families whose fields are listed completely.
FAMILIES: Final = _words("nfs rpc tcp udp ip ipv6 frame eth ceph nlm mount portmap rpcrdma _ws")

_INTEGERS: Final = _words(
    "CHAR FRAMENUM UINT8 UINT16 UINT24 UINT32 UINT40 UINT48 UINT56 UINT64 "
    "INT8 INT16 INT24 INT32 INT40 INT48 INT56 INT64"
)
_TEXTS: Final = _words("STRING STRINGZ STRINGZTRUNC STRINGZPAD UINT_STRING")

#: Fields that only an RPC call carries (RFC 8881 section 18, argument structures; checked against
#: captures of NFSv4.0 and 4.1). `rpc.reqframe` in a call is the frame of its reply.
CALL_ONLY: Final = _words("""
    nfs.minorversion nfs.lock.reclaim nfs.reclaim4 nfs.lock_seqid nfs.lock.locker.new_lock_owner
    nfs.open_owner4 nfs.open4.share_access nfs.open4.share_deny nfs.open.claim_type nfs.open.opentype
    nfs.cachethis4 nfs.nfs_client_id4.id nfs.createmode4 nfs.cb_program nfs.exchange_id.call_flags
    rpc.reqframe rpc.auth.uid rpc.auth.gid rpc.auth.machinename rpc.call.dup""")

#: Fields that only an RPC reply carries (result structures). `rpc.repframe` in a reply is the frame of
#: its call.
REPLY_ONLY: Final = _words("""
    nfs.nfsstat4 nfs.status nfs.open.delegation_type nfs.target_high_slotid nfs.sequence.flags
    nfs.changeid4 nfs.changeid4.before nfs.changeid4.after nfs.open_rflags nfs.exchange_id.reply_flags
    nfs.fattr4.lease_time rpc.repframe rpc.time rpc.replystat rpc.state_accept rpc.state_reject
    rpc.reply.dup""")

#: Fields that may stand in one frame several times because a COMPOUND has several operations.
STATUS_FIELDS: Final = frozenset({"nfs.nfsstat4", "nfs.status"})

FUNCTIONS: Final = _words("upper lower len count string max min abs vals float double")


@functools.cache
def known() -> dict[str, str]:
    """Field name → type without its prefix (`UINT32`, `BYTES`, `STRING`)."""
    listing = importlib.resources.files(__package__).joinpath("fields.txt").read_text("ascii")
    rows = (line.split(" ", 1) for line in listing.splitlines() if not line.startswith("#"))
    return {**dict(rows), **dict.fromkeys(FAMILIES, "PROTOCOL")}


def family(name: str) -> str:
    """`nfs.opcode` → `nfs`."""
    return name.split(".", 1)[0]


def is_unknown(name: str) -> bool:
    """True if the name belongs to a family that is listed, in any case of letters, and isn't there."""
    return family(name).lower() in FAMILIES and name not in known()


def type_of(name: str) -> str:
    """integer, boolean, bytes, text, protocol, none, other, or "" for a name that isn't listed."""
    kind = known().get(name, "")
    if kind in _INTEGERS:
        return "integer"
    if kind in _TEXTS:
        return "text"
    simple = {"BOOLEAN": "boolean", "BYTES": "bytes", "UINT_BYTES": "bytes", "PROTOCOL": "protocol"}
    return simple.get(kind, "none" if kind == "NONE" else "other" if kind else "")


@functools.lru_cache(maxsize=256)
def nearest(name: str, count: int = 3) -> tuple[str, ...]:
    """Existing names that are closest to this one, best first.

    A name that only differs in case, or that is this one with a version number behind it
    (`nfs.lock_owner` → `nfs.lock_owner4`), comes before all others.
    """
    lower = name.lower()
    exact = [n for n in known() if n.lower() == lower]
    suffixed = [n for suffix in "43" if (n := lower + suffix) in known()]
    pool = [n for n in known() if family(n) == family(lower)] or list(known())
    close = difflib.get_close_matches(lower, pool, n=count, cutoff=0.6)
    return tuple(dict.fromkeys([*exact, *suffixed, *close]))[:count]
