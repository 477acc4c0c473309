"""The client before servers that mean no good. TLS, tokens and rights are tested in tests/cluster."""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from analyzer.core.errors import InputError, ToolError
from k8s import client
from k8s.client import Answer, open_cluster

Reply = Callable[[BaseHTTPRequestHandler], None]


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what some tests are about."""


class Server:
    """An HTTP server on loopback whose next answer a test chooses; `asked` are the paths."""

    def __init__(self) -> None:
        self.reply: Reply = lambda handler: send(handler, 200, b"{}")
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.reply(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = Quiet(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.http.shutdown()
    started.http.server_close()


def kubeconfig(server: Server, folder: Path) -> Path:
    path = folder / "kubeconfig"
    content = {
        "current-context": "hostile",
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "the-token"}}],
        "contexts": [{"name": "hostile", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(content))
    return path


def ask(server: Server, folder: Path) -> Answer:
    with open_cluster("hostile", kubeconfig(server, folder)) as api:
        assert api.name == "hostile"
        return api.get("/apis", {"limit": "1"})


def test_the_token_is_sent_and_the_body_comes_back(server: Server, tmp_path: Path) -> None:
    seen = []

    def reply(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers["Authorization"])
        send(handler, 200, gzip.compress(b'{"a": 1}'), Content_Encoding="gzip")

    server.reply = reply
    assert ask(server, tmp_path) == Answer(200, b'{"a": 1}')
    assert (seen, server.asked) == (["Bearer the-token"], ["/apis?limit=1"])


def test_one_connection_serves_all_questions(server: Server, tmp_path: Path) -> None:
    ports = set()

    def reply(handler: BaseHTTPRequestHandler) -> None:
        ports.add(handler.client_address[1])
        send(handler, 200, gzip.compress(bytes(10**6)), Content_Encoding="gzip")

    server.reply = reply
    with open_cluster("hostile", kubeconfig(server, tmp_path)) as api:
        for _ in range(3):
            api.get("/apis")
    assert len(ports) == 1


def test_no_redirect_is_followed(server: Server, tmp_path: Path) -> None:
    server.reply = lambda handler: send(handler, 302, b"", Location="http://127.0.0.1:1/elsewhere")
    assert ask(server, tmp_path).status == 302
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again_and_its_wish_to_wait_is_ignored(
    server: Server, tmp_path: Path
) -> None:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 429 if len(server.asked) < 3 else 200, b"{}", Retry_After="86400")

    server.reply = reply
    began = time.monotonic()
    assert ask(server, tmp_path).status == 200
    assert time.monotonic() - began < 20


def test_a_server_that_stays_busy_is_given_up(server: Server, tmp_path: Path) -> None:
    server.reply = lambda handler: send(handler, 503, b"{}")
    assert ask(server, tmp_path).status == 503
    assert len(server.asked) == 4


def test_a_body_that_is_too_large_is_not_read(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 10**6)
    bomb = gzip.compress(bytes(50 * 10**6))
    server.reply = lambda handler: send(handler, 200, bomb, Content_Encoding="gzip")
    assert ask(server, tmp_path) == Answer(200, None)


def test_a_server_that_drips_is_given_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.3)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _ in range(1000):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return
            time.sleep(0.01)

    server.reply = drip
    with pytest.raises(InputError, match="took longer than"):
        ask(server, tmp_path)


def test_a_body_that_cannot_be_unpacked_is_an_error(server: Server, tmp_path: Path) -> None:
    server.reply = lambda handler: send(handler, 200, b"not gzip at all", Content_Encoding="gzip")
    with pytest.raises(InputError, match="can't be reached"):
        ask(server, tmp_path)


def test_a_connection_that_is_cut_is_an_error(server: Server, tmp_path: Path) -> None:
    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.close_connection = True

    server.reply = cut
    with pytest.raises(InputError, match="hostile"):
        ask(server, tmp_path)


def test_without_the_client_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with (
        pytest.raises(ToolError, match=r"pip install 'storage-analyzer\[kubernetes\]'"),
        open_cluster(),
    ):
        pass
