"""NFSv4.0, 4.1 and 4.2: which fields each operation of a COMPOUND contributes, in order.

tshark prints one column per field with the values of all operations of a frame in a row. This grammar
says how many values of each field an operation's arguments or results hold (RFC 7531, 5662 and 7863
XDR, as tshark 4.0 names the fields), so that each value finds its operation again. Where the counts
don't add up the frame is *ambiguous* and the second decoder, which sees the tree, takes it.
"""

from __future__ import annotations

from typing import Final

from analyzer.core.nfs4 import STATUS_CODES

#: Short name → tshark field. The short names are used from here on.
FIELDS: Final = {
    "ops": "nfs.opcode",
    "callbacks": "nfs.cb.operation",
    "counts": "nfs.ops.count",
    "status": "nfs.nfsstat4",
    "minor": "nfs.minorversion",
    "handle": "nfs.fhandle",
    "hash": "nfs.fh.hash",
    "stateid": "nfs.stateid.other",
    "stateid_seq": "nfs.stateid.seqid",
    "session": "nfs.session_id4",
    "slot": "nfs.slotid",
    "seq": "nfs.seqid",
    "target": "nfs.target_high_slotid",
    "flags": "nfs.sequence.flags",
    "offset": "nfs.offset4",
    "length": "nfs.length4",
    "count": "nfs.count4",
    "read_length": "nfs.read.data_length",
    "stable": "nfs.stable_how4",
    "verifier": "nfs.verifier4",
    "lock_type": "nfs.locktype4",
    "reclaim": "nfs.lock.reclaim",
    "new_owner": "nfs.lock.locker.new_lock_owner",
    "clientid": "nfs.clientid",
    "open_owner": "nfs.open_owner4",
    "lock_owner": "nfs.lock_owner4",
    "lock_seq": "nfs.lock_seqid",
    "access": "nfs.open4.share_access",
    "deny": "nfs.open4.share_deny",
    "claim": "nfs.open.claim_type",
    "open_type": "nfs.open.opentype",
    "create_mode": "nfs.createmode4",
    "delegation": "nfs.open.delegation_type",
    "rflags": "nfs.open_rflags",
    "name": "nfs.pathname.component",
    "identity": "nfs.nfs_client_id4.id",
    "data": "nfs.data",
    "entries": "nfs.entry_name",
    "max_slots": "nfs.maxreqs4",
    "one_fs": "nfs.reclaim_one_fs4",
    "lease": "nfs.fattr4.lease_time",
    "size": "nfs.fattr4.size",
    "max_read": "nfs.fattr4.maxread",
    "max_write": "nfs.fattr4.maxwrite",
}

#: Fields that share one of tshark's columns (each column costs time on every frame, empty or not). A
#: column holds all values of its first field, then all of the second, ...: the grammar knows how many.
_TOGETHER: Final = {
    "handles": ("handle", "hash"),
    "stateids": ("stateid", "stateid_seq"),
    "sessions": ("session", "seq"),
    "slots": ("slot", "target", "flags"),
    "ranges": ("offset", "length", "count", "stable", "verifier", "read_length"),
    "locks": ("lock_type", "reclaim", "lock_seq"),
    "owners": ("clientid", "open_owner", "lock_owner", "identity"),
    "opens": ("access", "deny", "open_type", "rflags"),
    "limits": ("max_slots", "one_fs"),
    "sizes": ("max_read", "max_write"),
}
#: Column → its fields, for all columns.
COLUMNS: Final[dict[str, tuple[str, ...]]] = _TOGETHER | {
    name: (name,) for name in FIELDS if all(name not in fields for fields in _TOGETHER.values())
}
COLUMN_OF: Final = {name: column for column, fields in COLUMNS.items() for name in fields}

#: Attribute values come where a bitmap says so; they are given to the only operation that can hold them.
FLOATING: Final = frozenset({"lease", "size", "max_read", "max_write"})
#: Fields that decide what follows them; part of a frame's shape.
SHAPING: Final = ("claim", "create_mode", "new_owner", "delegation")
#: Columns whose values are not counted: attributes, names of directory entries, bytes that may be a
#: WRITE's.
UNCOUNTED: Final = frozenset({"lease", "size", "sizes", "data", "entries"})

OPEN, LOCK, LOCKT, LOCKU, CLOSE, COMMIT, CREATE = 18, 12, 13, 14, 4, 5, 6
LOOKUP, LOOKUPP, GETFH, PUTFH, PUTROOTFH, PUTPUBFH = 15, 16, 10, 22, 24, 23
SAVEFH, RESTOREFH, RENAME, REMOVE, LINK, WRITE, READ = 32, 31, 29, 28, 11, 38, 25
SEQUENCE, TEST_STATEID, EXCHANGE_ID, CREATE_SESSION, SETCLIENTID = 53, 55, 42, 43, 35
GETATTR, READDIR, SETATTR, VERIFY, NVERIFY, OPENATTR = 9, 26, 34, 37, 17, 19
CB_SEQUENCE, CB_RECALL, CB_NOTIFY_LOCK = 11, 4, 13
OK, DENIED, CLID_INUSE = 0, STATUS_CODES["DENIED"], STATUS_CODES["CLID_INUSE"]

_STATEID = (("stateid", 1), ("stateid_seq", 1))
_RANGE = (("offset", 1), ("length", 1))
CALL_FIELDS: Final[dict[int, tuple[tuple[str, int], ...]]] = {
    CLOSE: (("seq", 1), *_STATEID),
    COMMIT: (("offset", 1), ("count", 1)),
    CREATE: (("name", 1),),
    8: _STATEID,  # DELEGRETURN
    LINK: (("name", 1),),
    LOCKT: (("lock_type", 1), *_RANGE, ("clientid", 1), ("lock_owner", 1)),
    LOCKU: (("lock_type", 1), ("seq", 1), *_STATEID, *_RANGE),
    LOOKUP: (("name", 1),),
    20: (*_STATEID, ("seq", 1)),  # OPEN_CONFIRM
    21: (*_STATEID, ("seq", 1), ("access", 1), ("deny", 1)),  # OPEN_DOWNGRADE
    PUTFH: (("handle", 1), ("hash", 1)),
    READ: (*_STATEID, ("offset", 1), ("count", 1)),
    REMOVE: (("name", 1),),
    RENAME: (("name", 2),),
    30: (("clientid", 1),),  # RENEW
    33: (("name", 1),),  # SECINFO
    SETATTR: _STATEID,
    SETCLIENTID: (("verifier", 1), ("identity", 1)),
    36: (("clientid", 1), ("verifier", 1)),  # SETCLIENTID_CONFIRM
    WRITE: (*_STATEID, ("offset", 1), ("stable", 1)),
    39: (("clientid", 1), ("lock_owner", 1)),  # RELEASE_LOCKOWNER
    41: (("session", 1),),  # BIND_CONN_TO_SESSION
    EXCHANGE_ID: (("verifier", 1), ("data", 1)),
    CREATE_SESSION: (("clientid", 1), ("seq", 1), ("max_slots", 2)),
    44: (("session", 1),),  # DESTROY_SESSION
    45: _STATEID,  # FREE_STATEID
    SEQUENCE: (("session", 1), ("seq", 1), ("slot", 1)),
    57: (("clientid", 1),),  # DESTROY_CLIENTID
    58: (("one_fs", 1),),  # RECLAIM_COMPLETE
    59: (*_STATEID, *_RANGE),  # ALLOCATE
    62: (*_STATEID, *_RANGE),  # DEALLOCATE
    68: (*_STATEID, ("offset", 1), ("count", 1)),  # READ_PLUS
    69: (*_STATEID, ("offset", 1)),  # SEEK
}
REPLY_FIELDS: Final[dict[int, tuple[tuple[str, int], ...]]] = {
    CLOSE: _STATEID,
    COMMIT: (("verifier", 1),),
    GETFH: (("handle", 1), ("hash", 1)),
    READ: (("read_length", 1),),
    READDIR: (("verifier", 1),),
    LOCK: _STATEID,
    LOCKU: _STATEID,
    20: _STATEID,
    21: _STATEID,
    WRITE: (("count", 1), ("stable", 1), ("verifier", 1)),
    SETCLIENTID: (("clientid", 1), ("verifier", 1)),
    41: (("session", 1),),
    EXCHANGE_ID: (("clientid", 1), ("seq", 1)),
    CREATE_SESSION: (("session", 1), ("seq", 1), ("max_slots", 2)),
    SEQUENCE: (
        ("session", 1), ("seq", 1), ("slot", 1), ("target", 1), ("flags", 1),
    ),
}  # fmt: skip
DENIED_HOLDER = (*_RANGE, ("lock_type", 1), ("clientid", 1), ("lock_owner", 1))
CALLBACK_CALL_FIELDS: Final[dict[int, tuple[tuple[str, int], ...]]] = {
    CB_SEQUENCE: (("session", 1), ("seq", 1), ("slot", 1)),
    CB_RECALL: (*_STATEID, ("handle", 1), ("hash", 1)),
    CB_NOTIFY_LOCK: (("handle", 1), ("hash", 1), ("clientid", 1), ("lock_owner", 1)),
}
CALLBACK_REPLY_FIELDS: Final[dict[int, tuple[tuple[str, int], ...]]] = {
    CB_SEQUENCE: (("session", 1), ("seq", 1), ("slot", 1), ("target", 1)),
}
#: Operations whose arguments or results may hold file attributes.
HOLD_ATTRIBUTES: Final = frozenset({GETATTR, READDIR, SETATTR, OPEN, CREATE, VERIFY, NVERIFY})


_LOCK_CALL = (
    ("lock_type", 1), ("reclaim", 1), *_RANGE, ("new_owner", 1), *_STATEID, ("lock_seq", 1), ("seq", 1),
    ("clientid", 1), ("lock_owner", 1),
)  # fmt: skip
_OPEN_CALL = (
    ("seq", 1), ("access", 1), ("deny", 1), ("clientid", 1), ("open_owner", 1), ("open_type", 1),
    ("create_mode", 1), ("verifier", 1), ("claim", 1), ("name", 1), *_STATEID,
)  # fmt: skip
_OPEN_REPLY = (*_STATEID, ("rflags", 1), ("delegation", 1))


def expected(number: int, call: bool, callback: bool, status: int) -> frozenset[str]:
    """The fields that an operation's arguments or results may hold, for a decoder that sees the tree."""
    if callback:
        spec = (CALLBACK_CALL_FIELDS if call else CALLBACK_REPLY_FIELDS).get(number, ())
    elif call:
        special = {OPEN: _OPEN_CALL, LOCK: _LOCK_CALL, TEST_STATEID: _STATEID}
        spec = special.get(number) or CALL_FIELDS.get(number, ())
    elif status == DENIED and number in (LOCK, LOCKT):
        spec = DENIED_HOLDER
    else:
        spec = (_OPEN_REPLY if number == OPEN else REPLY_FIELDS.get(number, ())) if status == OK else ()
    names = {name for name, _ in spec}
    if number in HOLD_ATTRIBUTES and not callback:
        names |= FLOATING
    return frozenset(names)
