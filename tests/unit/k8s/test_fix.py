"""`--fix`: what it mends is gone afterwards, and all the rest of the text stays as it was."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from analyzer.core.finding import Finding
from analyzer.pipeline.rules import object_rules
from k8s.audit import audit
from k8s.edit import edited
from k8s.fix import Mended, mend
from k8s.manifests import read_texts
from k8s.objects import Delivery
from k8s.yaml_text import parse

MANIFESTS = sorted((Path(__file__).parents[2] / "manifests").glob("*/*.yaml"))
RULES = object_rules()


def find(delivery: Delivery) -> Sequence[Finding]:
    return audit(delivery, RULES).outcome.findings


def mended(text: str, name: str = "a.yaml") -> Mended:
    return mend({name: text}, find)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_after_the_patch_nothing_is_left_that_can_be_mended(path: Path) -> None:
    text = path.read_text("utf-8")
    result = mended(text)
    assert result.after == 0
    before = {f.fingerprint for f in find(read_texts({"a.yaml": text}))}
    after = {f.fingerprint for f in find(read_texts(dict(result.texts)))}
    assert len(before) - len(after) >= result.before
    kept = [line for line in text.splitlines() if line.startswith("#")]
    assert all(line in result.texts["a.yaml"] for line in kept), "comments stay"


def test_every_mendable_example_of_every_rule_is_mended() -> None:
    mendable = 0
    for rule in RULES:
        for text in rule.bad:
            result = mended(text)
            assert result.after == 0, (rule.id, result.patch)
            mendable += result.before > 0
    assert mendable > 20


CLASS = """apiVersion: storage.k8s.io/v1  # the API
kind: StorageClass
metadata:
  name: fast
# what makes it
provisioner: ebs.csi.aws.com
parameters: {type: gp3, iops: 6000}
mountOptions:
  - noatime   # fine
  - "barrier=0,discard"   # not
volumeBindingMode: WaitForFirstConsumer
"""


def test_only_the_lines_that_are_wrong_change() -> None:
    lines = [line for line in mended(CLASS).patch.splitlines() if line[:1] in "+-"]
    assert lines == [
        "--- a/a.yaml",
        "+++ b/a.yaml",
        "-parameters: {type: gp3, iops: 6000}",
        "+parameters: {type: gp3, iops: '6000'}",
        '-  - "barrier=0,discard"   # not',
        "+  - discard   # not",
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_the_patch_applies(tmp_path: Path, newline: str, end: str) -> None:
    git = shutil.which("git")
    assert git
    text = CLASS.rstrip("\n").replace("\n", newline) + end
    (tmp_path / "a.yaml").write_bytes(text.encode())
    result = mended(text)
    subprocess.run([git, "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run([git, "apply", "-"], cwd=tmp_path, input=result.patch.encode(), check=True)
    assert (tmp_path / "a.yaml").read_bytes().decode() == result.texts["a.yaml"]


def test_a_missing_limit_becomes_a_class_and_a_reference() -> None:
    text = """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: rbd
"""
    result = mended(text)
    assert result.before == 1 and result.after == 0
    objects = {o.kind: o for o in read_texts(dict(result.texts)).objects}
    assert objects["VolumeAttributesClass"].data["driverName"] == "rook-ceph.rbd.csi.ceph.com"
    assert objects["PersistentVolumeClaim"].data["spec"]["volumeAttributesClassName"] == "rbd-limited"


def test_json_is_mended_as_json() -> None:
    text = '{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "a"},'
    text += ' "provisioner": "ebs.csi.aws.com", "ioLimits": {"iops": 1}, "parameters": {"iops": 5}}'
    result = mended(text, "a.json")
    assert result.after == 0
    assert (
        '"parameters": {"iops": "5"}, "volumeBindingMode": "WaitForFirstConsumer"}'
        in result.texts["a.json"]
    )
    assert "ioLimits" not in result.texts["a.json"]


@pytest.mark.parametrize(
    ("text", "path", "value", "wanted"),
    [
        ("a: [1, 2, 3]\n", ("a", 1), None, "a: [1, 3]\n"),
        ("a: [1, 2, 3]\n", ("a", 2), None, "a: [1, 2]\n"),
        ("a: [1]\nb: 2\n", ("a", 0), None, "b: 2\n"),
        ("a: {x: 1, y: 2}\n", ("a", "x"), None, "a: {y: 2}\n"),
        ("- a: 1\n  b: 2\n", (0, "a"), None, "- b: 2\n"),
        ("- a: 1\n  b: 2\n", (0, "b"), None, "- a: 1\n"),
        ("a:\n  b: x  # why\n", ("a", "b"), "y", "a:\n  b: y  # why\n"),
        ("a:\n  b: x\nc: 1\n", ("a", "d"), "yes", "a:\n  b: x\n  d: 'yes'\nc: 1\n"),
        ("a: |\n  text\n  more\nb: 1\n", ("a",), None, "b: 1\n"),
        ("a: 1\nb: |\n  text\n", ("c",), True, "a: 1\nb: |\n  text\nc: true\n"),
        ("a: é\nb: 1\n", ("b",), "ü", "a: é\nb: ü\n"),
    ],
)
def test_edits(text: str, path: tuple[str | int, ...], value: object, wanted: str) -> None:
    assert edited(text, [(path, value)]) == wanted
    parse(wanted)
