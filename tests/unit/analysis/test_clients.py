"""Clients and their labels."""

from __future__ import annotations

from analyzer.analysis.clients import ClientRow
from tests.unit.analysis.helpers import rows, s


def _labels(text: str) -> dict[str, str]:
    return {row.client: row.label for row in rows(ClientRow, text)}


def test_address_alone_where_it_is_enough() -> None:
    text = """
    1 hostA session - op=EXCHANGE_ID identity=hostA connection=10.0.0.1:900>server:2049
    2 hostB session - op=EXCHANGE_ID identity=hostB connection=10.0.0.2:900>server:2049
    3 hostB read f 0+1 connection=10.0.0.2:901>server:2049
    """
    assert _labels(text) == {"hostA": "10.0.0.1", "hostB": "10.0.0.2"}
    (_, b) = rows(ClientRow, text)
    assert b.operations == 2 and b.addresses == ("10.0.0.2",) and len(b.connections) == 2
    assert (b.first_ns, b.last_ns) == (s(2), s(3))


def test_port_where_the_address_is_shared_and_clientid_where_the_port_is() -> None:
    text = """
    1 A session - op=EXCHANGE_ID identity=A clientid=0x01 connection=127.0.0.1:900>server:2049
    2 B session - op=EXCHANGE_ID identity=B clientid=0x02 connection=127.0.0.1:901>server:2049
    3 C session - op=EXCHANGE_ID identity=C clientid=0x03 connection=127.0.0.1:901>server:2049
    """
    assert _labels(text) == {
        "A": "127.0.0.1:900",
        "B": "127.0.0.1:901 clientid 0x02",
        "C": "127.0.0.1:901 clientid 0x03",
    }


def test_a_client_that_never_named_itself_leaves_the_others_their_names() -> None:
    text = """
    1 A session - op=EXCHANGE_ID identity=A connection=127.0.0.1:900>server:2049
    2 B session - op=EXCHANGE_ID identity=B connection=127.0.0.1:901>server:2049
    3 x session - connection=127.0.0.1:900>server:2049 -> BADSESSION
    """
    found = _labels(text.replace("3 x", "3 session0"))
    assert found["A"] == "127.0.0.1:900" and found["session0"].startswith("127.0.0.1:900 ")


def test_one_client_at_two_servers_has_one_label() -> None:
    text = """
    1 A read f 0+1 endpoint=one:2049 connection=10.0.0.1:900>one:2049
    2 A read f 0+1 endpoint=two:2049 connection=10.0.0.1:901>two:2049
    """
    assert [(r.endpoint, r.label) for r in rows(ClientRow, text)] == [
        ("one:2049", "10.0.0.1"),
        ("two:2049", "10.0.0.1"),
    ]


def test_labels_stay_unique_when_nothing_tells_clients_apart() -> None:
    text = "\n".join(f"{n} c{n} read f 0+1 connection=h:1>server:2049 clientid=0x09" for n in range(1, 4))
    found = _labels(text)
    assert len(set(found.values())) == 3
