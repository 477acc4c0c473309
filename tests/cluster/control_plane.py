"""etcd and kube-apiserver on this machine's loopback, in a temporary folder, for as long as a test needs.

The programs are told by the kernel to end with the process that started them (`setpriv --pdeathsig`), even
when that is killed. etcd listens on a Unix socket in the folder alone.
"""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from tests.cluster.binaries import Binaries

READY_SECONDS = 90
ADMIN, AUDITOR = "admin", "auditor"  # the auditor has no right but those that a test grants
_TRIES = 3
Object = dict[str, Any]


class StartError(RuntimeError):
    """A program did not come up; the message holds the end of its log."""


@dataclass(slots=True)
class ControlPlane:
    """A running control plane. `tokens` maps a user to its bearer token."""

    folder: Path
    url: str
    certificate: Path
    tokens: Mapping[str, str]
    pids: dict[str, int] = field(default_factory=dict)

    def client(self, user: str = ADMIN) -> Client:
        """A client for setting the scene."""
        pool = urllib3.PoolManager(ca_certs=str(self.certificate), maxsize=16)
        return Client(pool, self.url, self.tokens[user])

    def kubeconfig(self, user: str = AUDITOR, **changes: str) -> Path:
        """A kubeconfig of a user with one context, `test`; `changes` replace `server`, `token` or
        `certificate` (the path of a file)."""
        server, token = changes.get("server", self.url), changes.get("token", self.tokens.get(user, ""))
        certificate = changes.get("certificate", str(self.certificate))
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {"name": "c", "cluster": {"server": server, "certificate-authority": certificate}}
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": user}}],
        }
        path = self.folder / f"kubeconfig-{user}-{secrets.token_hex(4)}"
        path.write_text(json.dumps(content))
        return path

    def requests(self, user: str = AUDITOR) -> list[tuple[str, str]]:
        """(verb, resource or path) of each request of a user so far, from the API server's own audit log;
        only the auditor's are logged."""
        events = [json.loads(line) for line in (self.folder / "audit.log").read_text().splitlines()]
        return [
            (event["verb"], event.get("objectRef", {}).get("resource", event["requestURI"]))
            for event in events
            if event["user"]["username"] == user
        ]

    def compact(self) -> None:
        """Forget every revision of etcd but the newest, as the API server does every five minutes: tokens
        of unfinished lists then point nowhere."""
        revision = int(self._etcd("/v3/kv/range", {"key": _b64("/")})["header"]["revision"])
        self._etcd("/v3/kv/compaction", {"revision": str(revision), "physical": True})

    def _etcd(self, path: str, body: Object) -> Object:
        connection = _UnixConnection(self.folder / "etcd.sock")
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        assert response.status == 200, content
        parsed: Object = json.loads(content)
        return parsed


@dataclass(frozen=True, slots=True)
class Client:
    """Just enough of a client to set the scene."""

    pool: urllib3.PoolManager
    url: str
    token: str

    def call(
        self, method: str, path: str, body: Object | None = None, kind: str = "json"
    ) -> tuple[int, Object]:
        """(status, parsed answer). `kind` is json, or that of a patch: merge-patch+json ..."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": f"application/{kind}"}
        content = None if body is None else json.dumps(body)
        answer = self.pool.request(method, self.url + path, body=content, headers=headers, timeout=30)
        parsed = json.loads(answer.data) if answer.data[:1] == b"{" else {"text": answer.data.decode()}
        return answer.status, parsed

    def create(self, path: str, body: Object) -> Object:
        """Create an object; it may be there already."""
        status, answer = self.call("POST", path, body)
        assert status in (200, 201, 409), answer
        return answer


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@contextmanager
def control_plane(binaries: Binaries, controllers: bool = False) -> Iterator[ControlPlane]:
    """A control plane with the users `admin` and `auditor`. With `controllers`, kube-controller-manager
    runs too and pods get service accounts; without it, nothing but the API server acts on objects."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as name:
        folder = Path(name)
        for attempt in range(_TRIES):
            try:
                with ExitStack() as processes:
                    plane = _start(binaries, folder, controllers, processes)
                    yield plane
                    return
            except _PortTakenError as error:  # somebody was faster than we
                if attempt == _TRIES - 1:
                    raise StartError(str(error)) from None


class _PortTakenError(Exception):
    pass


def _start(binaries: Binaries, folder: Path, controllers: bool, processes: ExitStack) -> ControlPlane:
    key, certificate = _certificate(folder)
    tokens = {user: secrets.token_hex(16) for user in (ADMIN, AUDITOR)}
    lines = [f'{tokens[ADMIN]},{ADMIN},1,"system:masters"', f"{tokens[AUDITOR]},{AUDITOR},2"]
    (folder / "tokens.csv").write_text("\n".join(lines) + "\n")
    policy: Object = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    policy["rules"] = [{"level": "Metadata", "users": [AUDITOR]}, {"level": "None"}]
    (folder / "policy.json").write_text(json.dumps(policy))
    port = _free_port()
    plane = ControlPlane(folder, f"https://127.0.0.1:{port}", certificate, tokens)
    socket_url = f"unix://{folder}/etcd.sock"
    etcd = [
        str(binaries.program("etcd")),
        f"--data-dir={folder}/etcd",
        f"--listen-client-urls={socket_url}",
        f"--advertise-client-urls={socket_url}",
        f"--listen-peer-urls=unix://{folder}/peer.sock",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    api = [
        str(binaries.program("kube-apiserver")),
        f"--etcd-servers={socket_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--token-auth-file={folder}/tokens.csv",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificate}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        "--profiling=false",
        f"--audit-policy-file={folder}/policy.json",
        f"--audit-log-path={folder}/audit.log",
        "--audit-log-mode=blocking",
        "--etcd-compaction-interval=0",  # tests compact when they want to
        "--watch-cache-sizes=configmaps#0",  # lists of these come from etcd, whose tokens can expire
        # without controllers nobody makes service accounts, and nobody lets go of volumes
        *(
            []
            if controllers
            else ["--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection"]
        ),
    ]
    for name, command in (("etcd", etcd), ("kube-apiserver", api)):
        plane.pids[name] = _launch(name, command, folder, processes).pid
    _await_ready(plane)
    if controllers:
        manager = [
            str(binaries.program("kube-controller-manager")),
            f"--kubeconfig={plane.kubeconfig(ADMIN)}",
            "--bind-address=127.0.0.1",
            f"--secure-port={_free_port()}",
            f"--cert-dir={folder}",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={certificate}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
        ]
        plane.pids["kube-controller-manager"] = _launch("controllers", manager, folder, processes).pid
    return plane


def _launch(
    name: str, command: Sequence[str], folder: Path, processes: ExitStack
) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    processes.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # nothing in there is worth an orderly end
    process.wait(timeout=30)


def _await_ready(plane: ControlPlane) -> None:
    """Until the API server says so. Retries are off: the wait is ours."""
    end = time.monotonic() + READY_SECONDS
    headers = {"Authorization": f"Bearer {plane.tokens[ADMIN]}"}
    pool = urllib3.PoolManager(ca_certs=str(plane.certificate), retries=False, timeout=5)
    while time.monotonic() < end:
        for name, pid in plane.pids.items():
            if _ended(pid):
                log = (plane.folder / f"{name}.log").read_text(errors="replace")
                if "address already in use" in log:
                    raise _PortTakenError(log[-500:])
                raise StartError(f"{name} ended at once:\n{log[-3000:]}")
        try:
            if pool.request("GET", plane.url + "/readyz", headers=headers).status == 200:
                return
        except urllib3.exceptions.HTTPError:
            pass
        time.sleep(0.1)
    log = (plane.folder / "kube-apiserver.log").read_text(errors="replace")
    raise StartError(f"the API server was not ready within {READY_SECONDS} s:\n{log[-3000:]}")


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _certificate(folder: Path) -> tuple[Path, Path]:
    """(key, certificate) of the API server, its own authority; the key signs service accounts too."""
    key, certificate = folder / "server.key", folder / "server.crt"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=kube-apiserver"]
    for extension in ("subjectAltName=IP:127.0.0.1", "keyUsage=critical,digitalSignature,keyCertSign"):
        command += ["-addext", extension]
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    return key, certificate


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _b64(text: str) -> str:
    return b64encode(text.encode()).decode()
