"""Lock state of one server: what each operation does to the lock tables of its files."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.lock_collisions import Place
from analyzer.analysis.lock_owners import NO_CLIENTID, Owners, client_of
from analyzer.analysis.lock_ranges import EOF, Grant, Owner, stop_of
from analyzer.analysis.lock_rows import LockRows
from analyzer.analysis.lock_table import LockTable, Want
from analyzer.analysis.lock_waits import SECOND
from analyzer.analysis.locks import LockServer
from analyzer.core.operations import Operation

#: Statuses by which a server says that a lock's state is gone (RFC 8881 section 15.1).
STATE_GONE = {"EXPIRED": "expired", "ADMIN_REVOKED": "lost", "BAD_STATEID": "lost"}
#: ... that a reclaim came too late or collided.
RECLAIM_REFUSED = frozenset({"NO_GRACE", "RECLAIM_BAD", "RECLAIM_CONFLICT"})
#: ... that it doesn't know the client or session (any more): whatever another got meanwhile is lost.
CLIENT_GONE = frozenset({"BADSESSION", "DEADSESSION", "STALE_CLIENTID", "EXPIRED"})
#: NFSv4.0: statuses that don't use up the owner's sequence id (RFC 7530 section 9.1.7).
SEQUENCE_KEPT = frozenset(
    [
        "STALE_CLIENTID",
        "STALE_STATEID",
        "BAD_STATEID",
        "BAD_SEQID",
        "BADXDR",
        "RESOURCE",
        "NOFILEHANDLE",
        "MOVED",
    ]
)
_MAX_SEQUENCES = 65_536
#: Replies that took effect before one that was seen may come that much later.
_UNDER_WAY = 2 * SECOND


class ServerLocks:
    """All lock tables of one server (`endpoint`)."""

    def __init__(self, endpoint: str, rows: LockRows) -> None:
        self.endpoint = endpoint
        self.tables: dict[str, LockTable] = {}
        self.owners = Owners()
        self.may_notify = False
        self._rows = rows
        self._notifications = 0
        self._protocol = ""
        self._in_grace = False
        self._verifiers: dict[str, str] = {}  # client -> boot verifier
        self._rebooted: set[str] = set()
        self._sequences: dict[str, int] = {}  # NFSv4.0: stateid -> last owner sequence id of a LOCK
        self._troubled: dict[str, LockTable] = {}  # where a lock was overtaken or lost
        self._idle: dict[str, LockTable] = {}
        self._doubt = False  # whether any grant may be in doubt

    # locks

    def lock(self, op: Operation) -> None:
        """A LOCK, whatever became of it."""
        if op.offset is None or op.object is None:
            return
        self._protocol = op.protocol or self._protocol
        owner = self.owners.asking(op)
        want = Want(
            owner,
            op.offset,
            stop_of(op.offset, -1 if op.length is None else op.length),
            op.lock_type != "read",
        )
        replayed = self._replayed(op)
        if op.status_code == 0:
            self._granted(op, want)
        elif op.status == "DENIED" and not replayed:
            self._denied(op, want)
        else:
            self._tried(op, want)

    def _granted(self, op: Operation, want: Want) -> None:
        if op.reclaim:
            self.restarted(op.start_lo)
            self._in_grace = True
        else:
            self._in_grace = False
        owner = want.owner
        self.owners.granted(op, owner)
        if not op.owner:
            owner.used_lo = op.start_lo
        table = self._table(op)
        table.grant(op, want)
        if table.troubled:
            self._troubled[op.object] = table

    def _denied(self, op: Operation, want: Want) -> None:
        table = self._table(op)
        holder = self._holder(op, table, want)
        wait = table.deny(op, want, holder)
        if holder is not None and holder.client == want.owner.client:
            known = holder.name is not None and want.owner.name is not None
            if holder is want.owner:
                self._rows.refused(op, table.place, want, "same owner")
            elif known:
                table.denied_by_own(op, want, holder)
        self._rows.look_for_circle(wait)

    def _tried(self, op: Operation, want: Want) -> None:
        """Neither granted nor denied: at most a sign that the owner still asks."""
        table = self.tables.get(op.object)
        wait = table.waits.get(want) if table else None
        if wait is not None:
            wait.again(op.start_lo)
        if op.status == "DEADLOCK":
            place = table.place if table else Place(self.endpoint, op.object, op.path)
            self._rows.refused(op, place, want, "deadlock")
        elif op.reclaim and op.status in RECLAIM_REFUSED:
            self._refused_reclaim(op, want)

    def _refused_reclaim(self, op: Operation, want: Want) -> None:
        table = self._table(op)
        held = table.ranges.of(want.owner, want.start, want.stop)
        if any(g.reclaimed and not g.doubt for g in held):
            return  # asked for once more; the server has it
        if not held:
            gone = Grant(*want, op.start_lo, op.end_hi, op.at_call, inferred=True)
            table.ranges.grants.append(gone)
            held = [gone]
        for grant in held:
            table.lose(grant, op, "lost", op.status)

    def _replayed(self, op: Operation) -> bool:
        """NFSv4.0: a LOCK with the sequence id of the one before is answered from the server's cache
        (RFC 7530 section 9.1.7): its DENIED says nothing about now."""
        if op.owner_seq is None or not op.stateid or op.protocol != "nfs4.0" or op.end_hi is None:
            return False
        if self._sequences.get(op.stateid) == op.owner_seq:
            return True
        if op.status not in SEQUENCE_KEPT:
            if len(self._sequences) >= _MAX_SEQUENCES:
                del self._sequences[next(iter(self._sequences))]
            self._sequences[op.stateid] = op.owner_seq
        return False

    def _holder(self, op: Operation, table: LockTable, want: Want) -> Owner | None:
        """The owner that a DENIED names, None if it can't be told."""
        standing = table.ranges.conflicts(*want)
        client = self.owners.client(op.holder_clientid)
        name = op.holder_owner
        if client is None and name:
            same = {g.owner.client for g in standing if g.owner.name == name}
            client = same.pop() if len(same) == 1 else None
        if client is None:
            if op.holder_clientid and op.holder_clientid != NO_CLIENTID:
                return self.owners.named(f"clientid {op.holder_clientid}", name or "")
            if op.holder_clientid is None and not name and len({id(g.owner) for g in standing}) == 1:
                return standing[0].owner
            return None
        if name:
            for grant in standing:
                if grant.owner.client == client and grant.owner.name is None:
                    self.owners.learn(grant.owner, name)
                    return grant.owner
            return self.owners.named(client, name)
        theirs = [g.owner for g in standing if g.owner.client == client]
        return theirs[0] if theirs else Owner(client, None)

    def unlock(self, op: Operation) -> None:
        """A LOCKU; one that was never answered may have happened, and its owner thought so."""
        table = self.tables.get(op.object) if op.object else None
        if table is None or op.offset is None:
            return
        owner = self.owners.known(op.stateid) or self._adopt(op, table)
        if owner is None:
            return
        stop = stop_of(op.offset, -1 if op.length is None else op.length)
        if op.status_code == 0 or op.end_hi is None:
            if op.end_hi is not None:
                owner.used_lo = op.start_lo
            table.release(op, owner, op.offset, stop, "unlock")
            self._idle[table.place.object] = table
        else:
            self.failed(op)

    def _adopt(self, op: Operation, table: LockTable) -> Owner | None:
        """Whose LOCKU this is, if its stateid was never seen: the client's owner that a DENIED named."""
        client = client_of(op)
        stop = stop_of(op.offset, -1 if op.length is None else op.length)
        owners = {
            id(g.owner): g.owner
            for g in table.ranges.grants
            if g.inferred and g.owner.client == client and g.start < stop and op.offset < g.stop
        }
        if len(owners) != 1 or not op.stateid:
            return None
        (owner,) = owners.values()
        self.owners.adopt(op.stateid, owner)
        return owner

    def close(self, op: Operation) -> None:
        """A CLOSE that succeeded: locks under that open are gone (RFC 8881 section 18.2.3)."""
        table = self.tables.get(op.object) if op.object else None
        if table is None:
            return
        client = client_of(op)
        for owner in {id(g.owner): g.owner for g in table.ranges.grants}.values():
            if owner.client == client and owner.open_stateid in (None, op.stateid):
                table.release(op, owner, 0, EOF, "close")
        self._idle[table.place.object] = table

    def freed(self, op: Operation) -> None:
        """FREE_STATEID succeeded: the server held nothing (more) under it."""
        owner = self.owners.known(op.stateid)
        if owner is None:
            return
        for table, grant in self._grants():
            if grant.owner is owner and not grant.ended:
                table.release(op, owner, 0, EOF, grant.doubt or "unlock")
        self.owners.forget(op.stateid)

    def wrote(self, op: Operation) -> None:
        """A WRITE that succeeded."""
        table = self.tables.get(op.object)
        if table is not None and op.offset is not None:
            table.wrote(op, client_of(op))

    def notified(self, op: Operation) -> None:
        """A CB_NOTIFY_LOCK."""
        self._notifications += 1
        self._rows.notified(op, self.endpoint, client_of(op))

    # what ends locks without an unlock

    def failed(self, op: Operation) -> None:
        """An operation whose status says that state is gone."""
        if op.status == "GRACE":
            self.restarted(op.start_lo)
            self._in_grace = True
            return
        cause = STATE_GONE.get(op.status)
        owner = self.owners.known(op.stateid)
        if cause and owner is not None and op.object in self.tables and not self._in_grace:
            table = self.tables[op.object]
            for grant in table.ranges.of(owner):
                table.lose(grant, op, cause, op.status)
        if op.status in CLIENT_GONE:
            self._client_gone(op, client_of(op))

    def _client_gone(self, op: Operation, client: str) -> None:
        for table in self._troubled.values():
            for grant in list(table.ranges.grants):
                if grant.owner.client == client and grant.overtaken:
                    table.lose(grant, op, "expired", op.status)
            for lost in table.lost:
                if lost.client == client and lost.next_client is not None:
                    table.report_lost(lost, op.status, op)

    def refused_open(self, op: Operation) -> None:
        """An OPEN that should have reclaimed: without it there are no locks."""
        if op.status not in RECLAIM_REFUSED or op.object not in self.tables:
            return
        table = self.tables[op.object]
        for grant in list(table.ranges.grants):
            if grant.owner.client == client_of(op) and grant.doubt:
                table.lose(grant, op, "lost", op.status)

    def restarted(self, now: int) -> None:
        """The server is in its grace period: what was granted before may be gone."""
        if not self._in_grace:
            self._doubt = True
            for _, grant in self._grants():
                grant.suspect("restart", now)
                grant.reclaimed = False

    def session(self, op: Operation) -> None:
        """EXCHANGE_ID, SETCLIENTID(_CONFIRM), CREATE_SESSION, RECLAIM_COMPLETE that succeeded."""
        client = client_of(op)
        if op.op in ("EXCHANGE_ID", "SETCLIENTID") and op.value:
            before = self._verifiers.get(client)
            if before is not None and before != op.value:
                self._rebooted.add(client)
            self._verifiers[client] = op.value
        if op.op == "RECLAIM_COMPLETE":
            if not op.one_fs:
                self._reclaim_complete(op, client)
        elif op.clientid and op.op != "SETCLIENTID" and self.owners.clientid(client, op.clientid):
            self._doubt = True
            for _, grant in self._grants(client):
                if not grant.reclaimed:
                    grant.suspect("restart" if self._in_grace else "expired", op.end_hi)

    def _reclaim_complete(self, op: Operation, client: str) -> None:
        """What the client had and didn't get back is gone (RFC 8881 section 18.51)."""
        reboot = client in self._rebooted
        self._rebooted.discard(client)
        if not self._doubt:
            return
        for table, grant in self._grants(client):
            if not grant.doubt or grant.ended or grant.reclaimed:
                continue
            if reboot:  # its processes are gone too
                table.release(op, grant.owner, grant.start, grant.stop, "expired")
            else:
                table.lose(grant, op, grant.doubt, "not reclaimed")
        for table in self._troubled.values():
            for lost in table.lost:
                if lost.client == client and not reboot:
                    table.report_lost(lost, "not reclaimed", op)

    def _grants(self, client: str | None = None) -> Iterator[tuple[LockTable, Grant]]:
        for table in list(self.tables.values()):
            for grant in list(table.ranges.grants):
                if client is None or grant.owner.client == client:
                    yield table, grant

    # tables

    def _table(self, op: Operation) -> LockTable:
        table = self.tables.get(op.object)
        if table is None:
            table = LockTable(Place(self.endpoint, op.object, op.path), self._rows)
            self.tables[op.object] = table
        elif table.place.path is None and op.path is not None:
            table.place = Place(self.endpoint, op.object, op.path)
        return table

    def sweep(self, now: int) -> None:
        """Forget files on which nothing stands since long enough that no reply is under way."""
        for target, table in list(self._idle.items()):
            if table.contended or not table.idle:
                del self._idle[target]
            elif table.ended_ns() < now - _UNDER_WAY:
                del self._idle[target]
                self.tables.pop(target, None)
                self._troubled.pop(target, None)

    def make_room(self, now: int) -> None:
        """Write and forget idle files, or if none is idle the tenth that came first."""
        idle = [t for t in self.tables.values() if t.idle]
        for table in idle or list(self.tables.values())[: len(self.tables) // 10 + 1]:
            table.finish(now)
            self._rows.table_done(table)
            del self.tables[table.place.object]
            self._troubled.pop(table.place.object, None)
            self._idle.pop(table.place.object, None)

    def finish(self, input_end: int) -> None:
        """The input ended."""
        for table in self.tables.values():
            table.finish(input_end)
        self._rows.flush(input_end, everything=True)
        for table in self.tables.values():
            self._rows.table_done(table)
        protocol = self._protocol or "nfs4.1"
        waits = self._rows.waits_at(self.endpoint)
        self._rows.server(LockServer(self.endpoint, protocol, waits, self._notifications, self.may_notify))
