"""What the capture showed and what it lost, as `Coverage`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from analyzer.analysis.words import counted
from analyzer.core.coverage import Coverage, Loss, Note
from analyzer.core.errors import AnalyzerError, InputError, NothingToCheckError
from analyzer.wire.inputs import CaptureFile
from analyzer.wire.loss import Losses, gaps, losses
from analyzer.wire.packets import ReadState
from analyzer.wire.shard import ShardResult
from analyzer.wire.survey import MOUNT, NFS, NLM, NSM, PORTMAP, Survey

#: More segments, bytes or messages missing than this: finding nothing means nothing.
SEVERE_SHARE: Final = 0.01
#: More than this missing: state over time can't be followed, even between the gaps.
BLIND_SHARE: Final = 0.1
#: So long between the end of one file and the beginning of the next is no ring buffer any more.
FILES_APART_NS: Final = 600 * 10**9
SNAPLEN_ADVICE: Final = "Capture whole packets (dumpcap -s 0), or at least 512 bytes for lock analysis."
#: Less than this may be one RPC message (1 MiB of data is the most that Linux sends in one).
LARGEST_RECORD: Final = (1 << 20) + 4096
_NLM_PROCEDURES: Final = {
    1: "TEST", 2: "LOCK", 3: "CANCEL", 4: "UNLOCK", 5: "GRANTED", 6: "TEST_MSG",
    7: "LOCK_MSG", 8: "CANCEL_MSG", 9: "UNLOCK_MSG", 10: "GRANTED_MSG", 22: "NM_LOCK",
}  # fmt: skip
_PROGRAMS: Final = {MOUNT: "MOUNT", PORTMAP: "portmapper", NSM: "NSM (status monitor)", 100011: "rquota"}


@dataclass(slots=True)
class CaptureTotals:
    """Everything that the parts of a run counted, in one place."""

    files: Sequence[CaptureFile]
    states: Sequence[ReadState]
    survey: Survey
    chosen: frozenset[int]  # connections that were decoded
    results: Sequence[ShardResult] = ()
    filtered: str = ""
    skipped: Sequence[str] = ()  # files of a folder that are called captures and are none
    whole: bool = True  # no frames of those connections were left out
    since: bool = False  # those before a chosen time were
    clients_on: dict[int, set[str]] = field(default_factory=dict)  # where something was lost
    operations: Counter[str] = field(default_factory=Counter)  # by protocol
    clients: int = 0


def coverage(totals: CaptureTotals) -> Coverage:
    """The account of one capture."""
    lost = losses(totals.survey, totals.chosen, totals.results, totals.whole, totals.since)
    notes = [
        *_failure_notes(totals),
        *_file_notes(totals),
        *_apart(totals),
        *_loss_notes(totals, lost),
        *_decode_notes(totals, lost),
        *_other_protocols(totals),
    ]
    if totals.filtered:
        notes.append(Note(totals.filtered, Loss.FILTERED))
    survey = totals.survey
    share = _share(totals, lost)
    return Coverage(
        seen=_seen(totals, lost),
        inputs=tuple(f.name for f in totals.files),
        first_ns=survey.first_ns,
        last_ns=survey.last_ns,
        notes=tuple(notes),
        severe=share > SEVERE_SHARE,
        blind=share > BLIND_SHARE or (share > SEVERE_SHARE and not _when_known(totals, lost)),
        gaps=gaps(lost, totals.clients_on, survey.first_ns or 0, survey.last_ns or 0),
    )


def _seen(totals: CaptureTotals, lost: Losses) -> dict[str, int]:
    survey = totals.survey
    servers = {_server(totals, n) for n in totals.chosen if survey.connections[n].nfs_calls}
    seen = {
        "frames": survey.frames,
        "bytes": sum(state.bytes for state in totals.states),
        "tcp connections": sum(1 for c in survey.connections.values() if not c.udp),
        "rpc connections": len(totals.chosen),
        "servers": len(servers),
        "clients": totals.clients,
        "rpc messages": sum(r.counts.rpc_messages for r in totals.results),
        "compounds": sum(r.counts.compounds for r in totals.results),
        "operations": sum(totals.operations.values()),
        "rpc retransmissions": sum(r.counts.sent_again for r in totals.results),
        "tcp retransmissions": sum(d.resent for d in lost.directions.values()),
    }
    seen |= {f"{protocol} operations": n for protocol, n in sorted(totals.operations.items())}
    return seen


def _server(totals: CaptureTotals, number: int) -> int:
    connection = totals.survey.connections[number]
    return connection.high if connection.towards_server() else connection.low


def without_packets(files: Sequence[CaptureFile], states: Sequence[ReadState]) -> AnalyzerError:
    """What to say of captures that hold no packet at all."""
    for item, state in zip(files, states, strict=True):
        if state.damaged_at is not None:
            return InputError(
                f"{item.name}: makes no sense from byte {state.damaged_at} on, before any packet"
            )
    names = ", ".join(item.name for item in files)
    cut = any(state.cut_at is not None or item.cut for item, state in zip(files, states, strict=True))
    return NothingToCheckError(
        f"{names}: no packet in the capture{', the file is cut off before the first one' if cut else ''}"
    )


def _file_notes(totals: CaptureTotals) -> list[Note]:
    notes = []
    if totals.skipped:
        names = ", ".join(totals.skipped[:3]) + (", ..." if len(totals.skipped) > 3 else "")
        text = f"left out, no pcap or pcapng inside: {names}"
        notes.append(Note(text, None, len(totals.skipped), "Copy the file again."))
    for item, state in zip(totals.files, totals.states, strict=True):
        if item.cut:
            notes.append(Note(item.cut, Loss.CUT, 1, "Copy the file again."))
        if state.cut_at is not None:
            text = f"{item.name} ends in the middle of a packet, at byte {state.cut_at}"
            notes.append(Note(text, Loss.CUT, 1, "Let the capture end by itself (Ctrl-C, not kill -9)."))
        if state.damaged_at is not None:
            text = f"{item.name} makes no sense from byte {state.damaged_at} on; the rest was not read"
            notes.append(Note(text, Loss.CUT, 1, "Copy the file again, or repair it with pcapfix."))
        if state.odd_times:
            text = (
                f"{item.name}: {counted(state.odd_times, 'frame')} with an impossible time, kept in order"
            )
            notes.append(Note(text, Loss.CUT, state.odd_times, "Copy the file again."))
        if state.dropped:
            text = f"{item.name}: the capturing side says that it dropped {state.dropped:,} packets"
            notes.append(Note(text, Loss.GAP, state.dropped, "Give dumpcap a larger buffer (-B 256)."))
    return notes


def _apart(totals: CaptureTotals) -> list[Note]:
    """Where much time lies between the end of one file and the beginning of the next."""
    timed = sorted(
        (state.first_ns, state.last_ns, item.name)
        for item, state in zip(totals.files, totals.states, strict=True)
        if state.first_ns > 0  # simple packet blocks have no time
    )
    pauses: list[tuple[int, str, str]] = []
    end_ns, last = 0, ""
    for first_ns, last_ns, name in timed:
        if last and first_ns - end_ns > FILES_APART_NS:
            pauses.append((first_ns - end_ns, last, name))
        if not last or last_ns > end_ns:
            end_ns, last = last_ns, name
    if not pauses:
        return []
    longest, before, after = max(pauses, key=lambda pause: pause[0])
    hours, minutes = divmod(longest // (60 * 10**9), 60)
    span = f"{hours:,} h {minutes} min" if hours else f"{minutes} min"
    more = f" (the longest of {len(pauses):,} such pauses)" if len(pauses) > 1 else ""
    text = (
        f"{span} pass between {before} and {after}{more}: if the files are not of one incident, "
        "analyse them one by one"
    )
    return [Note(text, None, len(pauses))]


def _loss_notes(totals: CaptureTotals, lost: Losses) -> list[Note]:
    survey, notes = totals.survey, []
    cut = sum(survey.connections[n].truncated for n in totals.chosen)
    unread = sum(n for which, n in lost.unread.items() if survey.connections[which].truncated)
    if cut:
        text = f"{cut:,} RPC frames hold only their first {survey.longest_capture} bytes or less: "
        if unread:
            text += f"{unread:,} messages in them can't be read, answers are incomplete"
        else:
            text += "all messages that begin in them could be read, their data is incomplete"
        notes.append(Note(text, Loss.SNAPLEN, cut, SNAPLEN_ADVICE))
    elif survey.too_short and not totals.chosen:
        text = (
            f"{survey.too_short:,} TCP frames hold only their first {survey.longest_capture} bytes or less:"
            " what they carry can't be told"
        )
        notes.append(Note(text, Loss.SNAPLEN, survey.too_short, SNAPLEN_ADVICE))
    if lost.one_way:
        text = f"{len(lost.one_way):,} RPC connections show only one direction"
        remedy = "Mirror both directions of the port (SPAN rx and tx)."
        notes.append(Note(text, Loss.ONE_WAY, len(lost.one_way), remedy))
    if lost.gaps:
        text = (
            f"{lost.missing_bytes:,} bytes in {lost.gaps:,} gaps of RPC connections never reached the "
            f"capture ({_percent(lost.missing_bytes, lost.payload_bytes)} of the bytes)"
        )
        remedy = "Capture nearer to the server, with a larger buffer (-B 256)."
        notes.append(Note(text, Loss.GAP, lost.gaps, remedy))
    if lost.begun:
        text = (
            f"{len(lost.begun):,} of {len(totals.chosen):,} RPC connections were already open when the "
            f"{'chosen time' if totals.since else 'capture'} began: state from before is unknown"
        )
        if totals.since:
            remedy = "Leave --since out, or choose an earlier time."
        else:
            remedy = "Start the capture before the mount, or remount."
        notes.append(Note(text, Loss.MID_START, len(lost.begun), remedy))
    return notes


def _percent(part: int, whole: int) -> str:
    """`0.02 %`; never 0 for something."""
    return f"{max(0.01, 100 * part / max(1, whole)):.2g} %"


def _failure_notes(totals: CaptureTotals) -> list[Note]:
    return [
        Note(
            f"{result.failure}; the rest of these connections was not decoded",
            Loss.UNDECODED,
            result.frames - result.decoded_frames,
        )
        for result in totals.results
        if result.failure
    ]


def _decode_notes(totals: CaptureTotals, lost: Losses) -> list[Note]:
    notes: list[Note] = []
    results = totals.results
    missing, torn = _undecoded_bytes(totals, lost)
    if torn:
        text = (
            f"{torn:,} bytes were the beginnings of RPC messages whose connection closed before their end"
        )
        notes.append(Note(text, None, torn))
    unread = sum(n for which, n in lost.unread.items() if not totals.survey.connections[which].truncated)
    if missing > 0 or unread:
        what = [f"{missing:,} bytes"] * (missing > 0) + [counted(unread, "message")] * (unread > 0)
        text = f"{' and '.join(what)} on RPC connections were not decoded as RPC"
        if lost.begun:
            text += " (a reply whose call came before the capture can't be)"
        notes.append(Note(text, Loss.UNDECODED, unread, "Include the beginning of the connections."))
    undecoded = sum(r.counts.undecoded for r in results)
    if undecoded:
        text = f"{undecoded:,} frames hold a COMPOUND that neither decoder could read"
        remedy = "Install the second decoder: pip install 'storage-analyzer[capture]'."
        notes.append(Note(text, Loss.UNDECODED, undecoded, remedy))
    unmatched = sum(sum(r.counts.unmatched.values()) for r in results)
    if unmatched:
        text = f"{unmatched:,} replies came without their call"
        notes.append(Note(text, Loss.UNMATCHED, unmatched, "Capture both directions from the start."))
    unanswered = sum(r.counts.unanswered for r in results)
    if unanswered:
        notes.append(Note(f"{unanswered:,} calls had no reply in this capture", Loss.MID_END, unanswered))
    given_up = sum(r.counts.given_up for r in results)
    if given_up:
        notes.append(Note(f"{given_up:,} calls were given up waiting for a reply", Loss.CAPPED, given_up))
    return notes


def _undecoded_bytes(totals: CaptureTotals, lost: Losses) -> tuple[int, int]:
    """Payload of the decoded TCP connections that did not turn out as RPC records, and how much beside
    it was the last record of a connection that closed (a server that restarts, a client that gives up).
    Where frames are truncated nobody can tell."""
    decoded: Counter[int] = Counter()
    for result in totals.results:
        decoded.update(result.counts.decoded_bytes)
    missing = torn = 0
    for which, state in lost.directions.items():
        connection = totals.survey.connections[which >> 1]
        if not totals.whole or connection.truncated:
            continue
        rest = max(0, state.payload - state.missing() - decoded[which])
        begun = which >> 1 in lost.begun or state.gaps() > 0
        if rest < LARGEST_RECORD and "closed" in connection.marks and not begun:
            torn += rest
        else:
            missing += rest
    return missing, torn


def _other_protocols(totals: CaptureTotals) -> list[Note]:
    survey, notes = totals.survey, []
    services: Counter[str] = Counter()
    for result in totals.results:
        services.update(result.counts.services)
    notes += _rpc_programs(survey.programs)
    if services.get("3"):
        text = f"{services['3']:,} RPC messages are encrypted by Kerberos (sec=krb5p): seen, not judged"
        notes.append(Note(text, None, services["3"], "Decrypt in Wireshark with a keytab, or use krb5i."))
    for mark, name in (("ceph", "Ceph"), ("smb", "SMB"), ("tls", "TLS")):
        hits = [n for n, c in survey.connections.items() if mark in c.marks]
        secured = [n for n in hits if "rpc-with-tls" in survey.connections[n].marks]
        if secured:
            text = f"{_carry(len(secured))} RPC-with-TLS (xprtsec=tls): seen, not judged"
            notes.append(Note(text, None, len(secured), "Capture on the client before encryption."))
        if rest := len(hits) - len(secured):
            notes.append(Note(f"{_carry(rest)} {name}: seen, not judged", None, rest))
    for name, count in sorted(survey.tunnels.items()):
        text = f"{count:,} frames are in {name}: not looked into"
        notes.append(Note(text, None, count, "Capture on the inner interface (the pod's or the mount's)."))
    for link, count in sorted(survey.unsupported_links.items()):
        notes.append(
            Note(f"{count:,} frames of link type {link}, which is not supported", Loss.UNDECODED, count)
        )
    if survey.pairs.overflow:
        notes.append(
            Note("more connections than can be told apart; the rest was not looked at", Loss.CAPPED)
        )
    return notes


def _carry(connections: int) -> str:
    return "1 connection carries" if connections == 1 else f"{connections} connections carry"


def _rpc_programs(programs: Counter[tuple[int, int, int]]) -> list[Note]:
    """NFSv3 and its helpers. Calls that share a segment with another one before it aren't counted."""
    notes = []
    nfs3 = sum(n for (program, _, _), n in programs.items() if program == NFS)
    if nfs3:
        notes.append(Note(f"{nfs3:,} NFSv2 or NFSv3 calls or more: counted, not judged", None, nfs3))
    locks: Counter[int] = Counter()
    for (program, _, procedure), n in programs.items():
        if program == NLM:
            locks[procedure] += n
    if locks:
        shown = ", ".join(f"{_NLM_PROCEDURES.get(p, p)} {n:,}" for p, n in sorted(locks.items()))
        text = f"NLM lock calls (NFSv3): {shown}: shown, not judged"
        notes.append(Note(text, None, sum(locks.values())))
    for number, name in _PROGRAMS.items():
        count = sum(n for (program, _, _), n in programs.items() if program == number)
        if count:
            notes.append(Note(f"{counted(count, f'{name} call')}: counted", None, count))
    return notes


def _share(totals: CaptureTotals, lost: Losses) -> float:
    """How much of the input is missing, 0 to 1."""
    if any(r.failure for r in totals.results) or (totals.survey.too_short and not totals.chosen):
        return 1.0
    unmatched = sum(sum(r.counts.unmatched.values()) for r in totals.results)
    return max(lost.share, unmatched / max(1, lost.messages))


def _when_known(totals: CaptureTotals, lost: Losses) -> bool:
    """Whether the times of all that is missing are known, so that what lies between can be judged."""
    truncated = any(totals.survey.connections[n].truncated for n in totals.chosen)
    return not truncated and not lost.one_way and set(lost.unread) <= set(lost.unread_at)
