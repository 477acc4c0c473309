"""A cluster's API as raw answers to GET requests. Nothing else imports the `kubernetes` package.

The official client loads the kubeconfig or the pod's own account, and does TLS and tokens. Its models are
not used: reading raw pages takes a fifth of the time (docs/adr/0014-raw-pages-of-the-api.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from analyzer.core.errors import InputError, ToolError

MAX_ANSWER_BYTES = 32 * 2**20
_CONNECT_SECONDS = 10
_READ_SECONDS = 60
_ANSWER_SECONDS = 180  # a server that drips its answer byte by byte is given up
_RETRIED = (429, 502, 503, 504)
_CHUNK_BYTES = 2**18
_IN_CLUSTER = "in-cluster"
_LOG_IN = "Log in again, check it with `kubectl auth whoami`, and try again"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said: the HTTP status, and the body if it is at most `MAX_ANSWER_BYTES` long,
    else None."""

    status: int
    body: bytes | None


class Api(Protocol):
    """A cluster that can be asked."""

    @property
    def name(self) -> str:
        """What reports call the cluster: the context's name."""

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        """The answer, whatever its status. Raises `InputError` where there is none."""


@contextmanager
def open_cluster(context: str | None = None, kubeconfig: Path | None = None) -> Iterator[Api]:
    """The cluster of a kubeconfig (KUBECONFIG or ~/.kube/config unless given) and one of its contexts, or
    that of the pod in which this runs.

    Raises `ToolError` if the client is not installed, and `InputError` if the configuration is not usable.
    """
    try:
        from kubernetes import client
    except ImportError:
        raise ToolError(
            "--live needs the Kubernetes client. Run: pip install 'storage-analyzer[kubernetes]'"
        ) from None
    configuration = client.Configuration()
    name = _configure(configuration, kubeconfig, context)
    configuration.retries = _retries()
    try:
        api = client.ApiClient(configuration)
    except (OSError, ValueError) as error:
        raise InputError(
            f"context {name!r} can't be used: {_text(error)}. Check its certificates"
        ) from None
    try:
        yield _Cluster(api, name)
    finally:
        api.close()


def _configure(configuration: Any, kubeconfig: Path | None, context: str | None) -> str:
    """Fill in the client's configuration; returns the name of the context."""
    from kubernetes import config

    files = os.environ.get("KUBECONFIG") or "~/.kube/config"
    default = any(Path(part).expanduser().exists() for part in files.split(os.pathsep) if part)
    named = str(kubeconfig) if kubeconfig is not None else files
    said = (config.ConfigException, yaml.YAMLError, OSError, ValueError)
    try:
        if kubeconfig is None and context is None and not default:
            if "KUBERNETES_SERVICE_HOST" not in os.environ:
                raise InputError(
                    f"there is no kubeconfig ({files}), and this is no pod. Set KUBECONFIG to the file "
                    "that kubectl uses"
                )
            config.load_incluster_config(configuration)
            return _IN_CLUSTER
        contexts, current = config.list_kube_config_contexts(named)
        known = [str(entry["name"]) for entry in contexts]
        if context is not None and context not in known:
            raise InputError(f"{named} has no context {context!r}. It has: {', '.join(known) or 'none'}")
        config.load_kube_config(named, context, configuration, persist_config=False)
        return context or str(current["name"])
    except (*said, TypeError, KeyError, AttributeError) as error:  # the loader takes its form for granted
        reason = _text(error) if isinstance(error, said) else "it has not the form of one"
        raise InputError(f"{named} is no usable kubeconfig: {reason}. Mend it, or name another") from None


def _retries() -> Any:
    """A busy server is asked again, for some seconds; a Retry-After of its choice is not waited for, and
    no redirect is followed: credentials are for this server alone."""
    from urllib3 import Retry

    return Retry(
        total=3,
        redirect=False,
        status_forcelist=_RETRIED,
        backoff_factor=0.3,
        respect_retry_after_header=False,
        raise_on_status=False,
    )


class _Cluster:
    """The official client, reduced to GET."""

    def __init__(self, api: Any, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._name = name
        self._clock = clock

    @property
    def name(self) -> str:
        """The context's name."""
        return self._name

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        """Ask; 401 is an error, every other status an answer."""
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            request = self._api.param_serialize(
                "GET",
                path,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Accept-Encoding": "gzip"},
                auth_settings=["BearerToken"],
            )
            response = self._api.call_api(
                *request, _request_timeout=(_CONNECT_SECONDS, _READ_SECONDS)
            ).response
            try:
                body = self._body(response)
            finally:
                response.close()  # a connection whose answer was read to its end is kept for the next
        except (HTTPError, ApiException, OSError, ValueError) as error:
            raise InputError(self._unreachable(error)) from None
        if response.status == 401:
            raise InputError(
                f"cluster {self._name!r} refuses the credentials (401): they are wrong or have "
                f"expired. {_LOG_IN}"
            )
        return Answer(response.status, body)

    def _body(self, response: Any) -> bytes | None:
        chunks, size, end = [], 0, self._clock() + _ANSWER_SECONDS
        while chunk := response.read1(_CHUNK_BYTES, decode_content=True):
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                return None
            if self._clock() > end:
                raise TimeoutError(f"an answer took longer than {_ANSWER_SECONDS} s")
            chunks.append(chunk)
        return b"".join(chunks)

    def _unreachable(self, error: Exception) -> str:
        text = _text(getattr(error, "reason", None) or error)
        text = text.partition("): ")[2] or text  # without the name of a class and its arguments
        host = self._api.configuration.host
        if "certificate" in text.lower() or "ssl" in text.lower():
            advice = "Check the server's address and certificate-authority in the kubeconfig"
            return f"cluster {self._name!r} at {host} is not trusted (TLS): {text}. {advice}"
        return (
            f"cluster {self._name!r} at {host} can't be reached: {text}. Check the address, network and VPN"
        )


def _text(error: object) -> str:
    """An error in one short line."""
    return " ".join(str(error).split()).rstrip(".")[:300] or type(error).__name__
