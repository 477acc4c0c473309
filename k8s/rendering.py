"""Folders that must be rendered before they are manifests: Helm charts and Kustomize folders."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

_TIMEOUT_S = 60
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")


@dataclass(frozen=True, slots=True)
class Rendered:
    """What became of a folder. `text` is None if it could not be rendered; `replaces` is True if the
    files in the folder must not be read, because they are no manifests by themselves."""

    name: str
    text: bytes | None
    replaces: bool
    notes: tuple[str, ...] = ()


def render(folder: str, shown: str, files: Sequence[str]) -> Rendered | None:
    """The rendered folder, which reports call `shown`; None if it is an ordinary one."""
    if "Chart.yaml" in files:
        return _chart(folder, shown)
    if any(name in files for name in _KUSTOMIZATIONS):
        return _kustomization(folder, shown)
    return None


def _chart(folder: str, shown: str) -> Rendered:
    if shutil.which("helm") is None:
        note = (
            f"{shown} is a Helm chart and was not read, for helm isn't installed:"
            f" helm template {shown} | storage-analyzer audit -"
        )
        return Rendered(shown, None, True, (note,))
    text, reason = _run(["helm", "template", "release", folder])
    if text is None:
        return Rendered(shown, None, True, (f"{shown} is a Helm chart that helm can't render: {reason}",))
    return Rendered(f"{shown} (helm template)", text, True)


def _kustomization(folder: str, shown: str) -> Rendered:
    command = next(
        (c for c in (["kustomize", "build"], ["kubectl", "kustomize"]) if shutil.which(c[0])), None
    )
    if command is None:
        note = (
            f"{shown} is a Kustomize folder; neither kustomize nor kubectl is installed, so that its files"
            " were read as they are, without patches"
        )
        return Rendered(shown, None, False, (note,))
    text, reason = _run([*command, folder])
    if text is None:
        said = f"{shown} is a Kustomize folder that {command[0]} can't build ({reason}): read as it is"
        return Rendered(shown, None, False, (said,))
    return Rendered(f"{shown} ({' '.join(command)})", text, True)


def _run(command: list[str]) -> tuple[bytes | None, str]:
    """The output, or None and the reason."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, "KUBECONFIG": os.devnull},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, type(error).__name__
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        return None, lines[-1][:300]
    return done.stdout, ""
