"""Columns of the operations table and of the protocol side table.

One row is one operation, whoever saw it. A row of the side table (`PROTOCOL_SCHEMA`) has the same
`op_id`; in memory both halves travel as one record batch (`EVENT_SCHEMA`), on disk as two files.

Order of a stream of batches: operations appear in the order in which their answers were seen
(`end_lo`); operations that were never answered come last, ordered by `start_lo`.

Times are integer nanoseconds since the epoch of the witness's clock. A witness with an exact clock
(a capture) sets `start_lo == start_hi` and `end_lo == end_hi`; a witness on several hosts uses the
coordinator's clock with the bounds of `analyzer.core.clock`. The intervals are *closed*: two
operations whose intervals touch in one instant may have happened in either order, so nothing is
concluded from that (the choice of porcupine and of Herlihy and Wing's real-time order).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

#: dictionary-encoded text: few distinct values over many rows
TEXT: Final = pa.dictionary(pa.int32(), pa.string())

OPERATION_SCHEMA: Final = pa.schema(
    [
        # identity
        pa.field("op_id", pa.int64(), nullable=False),
        pa.field("witness", TEXT),  # client, wire, trace
        pa.field("client", TEXT),  # the client's identity (not its address); see ClientRow
        pa.field("process", TEXT),
        pa.field("owner", TEXT),  # lock owner of LOCK/LOCKT/LOCKU, open owner of OPEN (hex or text)
        # target
        pa.field("protocol", TEXT),  # nfs3, nfs4.0, nfs4.1, nfs4.2, cephfs, posix
        pa.field("endpoint", TEXT),  # the server: "address:port"
        pa.field("object", TEXT),  # file handle or inode: the operation's current file handle
        pa.field("path", TEXT),  # best known path of `object` at that time, null if unknown
        # meaning
        pa.field("kind", TEXT, nullable=False),  # one of KINDS
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),  # -1 = to the end of the file
        pa.field("lock_type", TEXT),  # read or write
        pa.field("value", TEXT),  # unique id read or written, change attribute, or verifier (hex)
        # time
        pa.field("start_lo", pa.int64(), nullable=False),
        pa.field("start_hi", pa.int64(), nullable=False),
        pa.field("end_lo", pa.int64()),  # null = never seen to return
        pa.field("end_hi", pa.int64()),
        # outcome
        pa.field("outcome", TEXT),  # ok, fail, info (may or may not have happened)
        pa.field("status", TEXT),  # as the protocol names it, without prefix: DENIED, GRACE, EIO
        pa.field("status_code", pa.int64()),  # 0 = ok
        pa.field("attempts", pa.int32()),  # 1 + number of times the same request was sent again
        # quality of service
        pa.field("bytes", pa.int64()),  # payload bytes asked (write) or returned (read)
        # proof
        pa.field("at_call", pa.string()),  # file#frame, journal:offset, file:line
        pa.field("at_return", pa.string()),
    ]
)

#: Protocol extras (NFSv4 for now): null where the operation has no such thing.
PROTOCOL_SCHEMA: Final = pa.schema(
    [
        pa.field("op", TEXT),  # the protocol's name: LOCK, OPEN_DOWNGRADE, CB_RECALL, op 76
        pa.field("compound", pa.int64()),  # op_id of the first operation of the same COMPOUND
        pa.field("position", pa.int32()),  # 0-based place in the COMPOUND
        pa.field("connection", TEXT),  # "client address:port>server address:port"
        pa.field("callback", pa.bool_()),  # true: the server called, the client answered
        pa.field("xid", pa.int64()),
        pa.field("tag", TEXT),
        # NFSv4.1 session, repeated on every operation of the COMPOUND
        pa.field("session", TEXT),
        pa.field("slot", pa.int32()),
        pa.field("slot_seq", pa.int64()),  # sequence id of the slot
        pa.field("target_slot", pa.int32()),  # server's sr_target_highest_slotid, only on SEQUENCE
        pa.field("flags", pa.int64()),  # SEQUENCE: sr_status_flags. EXCHANGE_ID: reply flags. OPEN: rflags
        # identity
        pa.field("clientid", TEXT),  # 0x + 16 hex digits: named in, or returned by, this operation
        pa.field("identity", TEXT),  # co_ownerid of EXCHANGE_ID, id of SETCLIENTID (text, or hex:...)
        # state
        pa.field("owner_seq", pa.int64()),  # NFSv4.0 open- or lock-owner sequence id
        pa.field("stateid", TEXT),  # "other" part (24 hex digits) of the stateid that was sent
        pa.field("stateid_seq", pa.int64()),
        pa.field("new_stateid", TEXT),  # "other" part of the stateid that came back
        pa.field("new_stateid_seq", pa.int64()),
        pa.field("share_access", pa.int32()),  # 1 read, 2 write, 3 both
        pa.field("share_deny", pa.int32()),  # 0 none, 1 read, 2 write, 3 both
        pa.field("claim", TEXT),  # null, previous, delegate_cur, delegate_prev, fh, deleg_cur_fh, ...
        pa.field("create", pa.bool_()),  # OPEN with OPEN4_CREATE
        pa.field("delegation", TEXT),  # type granted by OPEN: none, read, write, none_ext
        pa.field("delegation_stateid", TEXT),
        pa.field("reclaim", pa.bool_()),  # LOCK with reclaim, OPEN with CLAIM_PREVIOUS
        pa.field("blocking", pa.bool_()),  # LOCK with READW_LT or WRITEW_LT
        # the conflicting lock named in a DENIED reply (LOCK4denied)
        pa.field("holder_clientid", TEXT),
        pa.field("holder_owner", TEXT),
        pa.field("holder_offset", pa.int64()),
        pa.field("holder_length", pa.int64()),
        pa.field("holder_type", TEXT),
        # data
        pa.field("stable", TEXT),  # WRITE: what was asked: unstable, data_sync, file_sync
        pa.field("committed", TEXT),  # WRITE: what the server answered
        pa.field("name", TEXT),  # component: LOOKUP, OPEN, CREATE, REMOVE, RENAME (old name)
        pa.field("new_name", TEXT),  # RENAME
        pa.field("new_object", TEXT),  # handle that became current by this operation (GETFH reply)
        pa.field("size", pa.int64()),  # file size where an attribute told it
        pa.field("lease_seconds", pa.int64()),  # lease_time attribute
        pa.field("max_slots", pa.int64()),  # CREATE_SESSION reply: fore channel ca_maxrequests
        pa.field("max_read", pa.int64()),
        pa.field("max_write", pa.int64()),
        pa.field("results", TEXT),  # TEST_STATEID: comma-separated status names
        pa.field("one_fs", pa.bool_()),  # RECLAIM_COMPLETE: rca_one_fs
    ]
)

EVENT_SCHEMA: Final = pa.schema(list(OPERATION_SCHEMA) + list(PROTOCOL_SCHEMA))

#: What a worker that made the system call itself knows beyond `OPERATION_SCHEMA` (witness "client").
#: `docs/histories.md` says, for each workload, which columns its operations fill.
CLIENT_SCHEMA: Final = pa.schema(
    [
        pa.field("workload", TEXT),  # who made the operation: locks, register, append, publish, ...
        pa.field("phase", TEXT),  # "" (the run itself), solo, together, audit (after the run), load
        pa.field("op", TEXT),  # the system call: openat, pwrite, fcntl, flock, fsync, rename, ...
        pa.field("handle", pa.int64()),  # op_id of the open whose descriptor is used; null: none
        pa.field(
            "after", pa.int64()
        ),  # op_id of an operation that, by a message, returned before this began
        # what was written or seen; 0 = nothing yet (absent, empty, zeros), null = not known
        pa.field("token", pa.int64()),  # unique id of the content
        pa.field("other", pa.int64()),  # a second id found in the same unit: the unit is mixed
        pa.field("torn_at", pa.int64()),  # file offset at which the content changes from `token` to `other`
        pa.field("intact", pa.bool_()),  # false: checksum wrong, cut short, or mixed
        pa.field("sequence", pa.int64()),  # the writer's own count: version, generation, record number
        pa.field("round", pa.int64()),  # trial, listing, load: what belongs together
        pa.field("aspect", TEXT),  # data, size, mtime, entry, negative, attribute that was looked at
        # locks
        pa.field("family", TEXT),  # posix, ofd, flock; of an exclusive create: create, mkdir, link
        pa.field("blocking", pa.bool_()),  # F_SETLKW, or flock without LOCK_NB
        # names and sizes
        pa.field("name", TEXT),  # entry of the directory `object`; shard of a checkpoint
        pa.field("new_name", TEXT),
        pa.field("size", pa.int64()),  # size that was seen; ranks of a checkpoint; blocks of a unit
        pa.field("options", TEXT),  # kind mount: the options as the kernel shows them
        # load
        pa.field("tenant", TEXT),  # whose work it is, where several share the storage
        pa.field("intended", pa.int64()),  # open loop: when it should have begun, coordinator's ns
    ]
)

#: Operations of the witness "client", in memory.
HISTORY_SCHEMA: Final = pa.schema(list(OPERATION_SCHEMA) + list(CLIENT_SCHEMA))

#: The schema of a stream of operations, by who saw them.
SCHEMA_OF: Final = {"wire": EVENT_SCHEMA, "client": HISTORY_SCHEMA}

#: The closed set of kinds.
KINDS: Final = frozenset(
    {
        *("open", "close", "lock", "lock_test", "unlock", "read", "write", "append", "commit"),
        *("rename", "create", "remove", "link", "lookup", "getattr", "setattr", "access", "readdir"),
        *("readlink", "session", "delegation", "recall", "notify_lock", "stateid", "layout", "copy"),
        *("allocate", "handle", "other"),
        *("mount", "fault"),  # facts of a run: what is mounted on a node, what was broken
    }
)

OUTCOMES: Final = frozenset({"ok", "fail", "info"})
