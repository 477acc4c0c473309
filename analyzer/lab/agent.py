"""Runs commands in a node for the lab's supervisor: one request per connection, JSON lines both ways.

    {"do": "run", "argv": [...], "env": {...}, "cwd": "/", "input": base64, "timeout_s": 60.0}
        → {"out": base64}, {"err": base64} as they come, at last
          {"exit": N, "timed_out": bool, "stuck": bool}
    {"do": "clock"} → {"wall_ns": ..., "mono_ns": ..., "exit": 0}

`exit` is the exit code, 128 + N for signal N, 124 after the time-out. `stuck` says that the process could
not even be killed: it hangs in the kernel (state D), as a process does whose hard mount lost its server.

Started by node.sh without the project's packages (python -I -S): the standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

PORT = 7000
TIMED_OUT = 124  # as timeout(1)
_CHUNK = 65536
_GRACE_S = 1.0  # between SIGKILL and giving up on a process
_MAX_REQUEST = 64 << 20

Send = Callable[[dict[str, Any]], None]


def answer(request: dict[str, Any], send: Send) -> None:
    """Do what a request asks; the last line sent has the key `exit` or `error`."""
    if request.get("do") == "clock":
        now = {"wall_ns": time.time_ns(), "mono_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)}
        send({**now, "exit": 0})
    elif request.get("do") == "run":
        _run(request, send)
    else:
        send({"error": f"no such request: {request.get('do')!r}"})


def _run(request: dict[str, Any], send: Send) -> None:
    try:
        child = subprocess.Popen(
            request["argv"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=request.get("cwd") or "/",
            env={**os.environ, **request.get("env", {})},
            start_new_session=True,
        )
    except OSError as error:
        send({"err": _text(f"{request['argv'][0]}: {error.strerror}\n".encode()), "exit": 127})
        return
    given = base64.b64decode(request.get("input", ""))
    threading.Thread(target=_feed, args=(child, given), daemon=True).start()
    end = time.monotonic() + float(request.get("timeout_s", 600))
    try:
        finished = _forward(child, send, end)
    except OSError:  # whoever asked has gone
        _kill(child)
        return
    code = None
    if finished:
        try:
            code = child.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
    if code is None:
        stuck = not _kill(child)
        send({"exit": TIMED_OUT, "timed_out": True, "stuck": stuck})
    else:
        send({"exit": 128 - code if code < 0 else code, "timed_out": False, "stuck": False})


def _feed(child: subprocess.Popen[bytes], given: bytes) -> None:
    assert child.stdin is not None
    try:
        child.stdin.write(given)
        child.stdin.close()
    except OSError:
        pass  # it doesn't read its input


def _forward(child: subprocess.Popen[bytes], send: Send, end: float) -> bool:
    """Send on what the child prints until it has closed both; False if the time is over before."""
    with selectors.DefaultSelector() as waiting:
        for name, stream in (("out", child.stdout), ("err", child.stderr)):
            assert stream is not None
            waiting.register(stream, selectors.EVENT_READ, name)
        while waiting.get_map():
            left = end - time.monotonic()
            if left <= 0:
                return False
            for key, _ in waiting.select(min(left, 0.5)):
                data = os.read(key.fd, _CHUNK)
                if data:
                    send({key.data: _text(data)})
                else:
                    waiting.unregister(key.fileobj)
            if child.poll() is not None and not waiting.select(0):
                return True  # something that it left behind keeps its output open
    return True


def _kill(child: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def serve(connection: socket.socket, handle: Callable[[dict[str, Any], Send], None] = answer) -> None:
    """One request and its answer."""
    lock = threading.Lock()

    def send(line: dict[str, Any]) -> None:
        with lock:
            connection.sendall(json.dumps(line).encode() + b"\n")

    with connection, connection.makefile("rb") as lines:
        try:
            text = lines.readline(_MAX_REQUEST)
            if text:
                handle(json.loads(text), send)
        except (OSError, ValueError):
            pass  # whoever asked has gone, or talks nonsense


def listen(listener: socket.socket, handle: Callable[[dict[str, Any], Send], None] = answer) -> None:
    """Answer each connection in a thread of its own, until the socket is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(connection, handle), daemon=True).start()


def main() -> None:
    """In a node: `agent.py ADDRESS`."""
    with socket.create_server((sys.argv[1], PORT), backlog=64) as listener:
        listen(listener)


if __name__ == "__main__":
    main()
