"""Hostile and odd files: bounded, clear, and the rest goes on."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import orjson
import pytest

from analyzer.core.errors import InputError
from analyzer.pipeline.rules import object_rules
from k8s.audit import audit
from k8s.inventory import Claim, build
from k8s.manifests import MAX_FILE_BYTES, load, read_texts
from k8s.objects import Delivery, dotted
from k8s.yaml_text import BadYaml, line_of, parse

RULES = object_rules()
CLASS = """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
"""
CLAIM = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: %s}\n"


def read(text: str) -> Delivery:
    return read_texts({"a.yaml": text})


def bomb() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for one, other in zip("abcdefghijk", "bcdefghijkl", strict=True):
        lines.append(f"{other}: &{other} [" + ", ".join([f"*{one}"] * 9) + "]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        (bomb(), "expand to far more", 1),
        ("a: &a\n  b: *a\n", "nested", 1),
        ("a: &a [*a]", "nested", 1),
        ("[" * 5000 + "]" * 5000, "nesting", 1),
        ("\n".join(" " * n + "a:" for n in range(5000)), "nesting", 1000),
        ("a: b\n\tc: d", "tab", 2),
        ("a: 'x", "end of stream", 1),
        ("a: {b: {{ c }}}", "key", 1),
        ("<<: [1, 2]\n? [a]\n: b", "key", 2),
        ("a: *nobody", "alias", 1),
        ("a: \x07", "control", 1),
    ],
)
def test_bad_yaml_is_told_with_its_line(text: str, said: str, line: int) -> None:
    began = time.monotonic()
    with pytest.raises(BadYaml) as caught:
        parse(text)
    assert said in caught.value.message
    assert caught.value.line == line
    assert time.monotonic() - began < 2


def test_scalars_are_what_kubectl_makes_of_them() -> None:
    data, _ = parse("[1, 012, 0x1f, 1.5, 1e3, yes, Off, ~, null, '1', 1.2.3, 1_000, true]")
    assert data == [1, 10, 31, 1.5, 1000.0, True, False, None, None, "1", "1.2.3", 1000, True]
    data, _ = parse("[2024-01-01, 8Gi, +.inf, '', a-, '0x', 0x, 1e999, 9999999999999999999]")
    assert data[:5] == ["2024-01-01", "8Gi", "+.inf", "", "a-"]
    assert data[5:7] == ["0x", "0x"] and data[8] == 9999999999999999999


def test_tags_make_no_objects() -> None:
    data, _ = parse("a: !!python/object/apply:os.system ['id']\nb: !Ref x\nc: !!str 5\n")
    assert data == {"a": ["id"], "b": "x", "c": "5"}


def test_the_rest_of_a_file_is_read() -> None:
    text = (
        CLAIM % "one"
        + "---\nkind: {{ .Values.kind }}\n---\n"
        + CLAIM % "two"
        + "---\n[\n---\n"
        + CLAIM % "three"
    )
    found = read(text)
    assert [o.name for o in found.objects] == ["one", "two", "three"]
    assert [(p.reference, p.template) for p in found.problems] == [("a.yaml:5", True), ("a.yaml:12", False)]
    assert [o.source.reference(("metadata", "name")) for o in found.objects] == [
        "a.yaml:3",
        "a.yaml:9",
        "a.yaml:15",
    ]


def test_lists_anchors_merges_and_json() -> None:
    text = """apiVersion: v1
kind: List
items:
  - &base
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: &m
      name: a
    spec: &spec
      accessModes: [ReadWriteOnce]
  - <<: *base
    metadata:
      name: b
"""
    one, two = read(text).objects
    assert two.name == "b" and two.data["spec"] == one.data["spec"]
    assert two.source.reference(("metadata", "name")) == "a.yaml:13"
    assert two.source.reference(("spec", "accessModes", 0)) == "a.yaml:10", "the merged key's own line"
    found = read_texts(
        {"a.json": '{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "p"}}]}'}
    )
    assert [o.label for o in found.objects] == ["Pod p"]


def test_duplicate_keys_are_told_and_the_later_counts() -> None:
    found = read(CLAIM % "a" + "spec: {a: 1}\nspec: {a: 2}\n")
    assert found.objects[0].data["spec"] == {"a": 2}
    assert [(p.reference, p.duplicate) for p in found.problems] == [("a.yaml:5", True)]


def test_what_is_no_kubernetes_object_is_left_alone() -> None:
    found = read("a: 1\n---\n- b\n---\n---\n# nothing\n---\nkind: 5\napiVersion: v1\n---\ntext\n")
    assert found.objects == [] and found.problems == ()


def test_lines_of_what_is_not_there_are_those_of_the_parent() -> None:
    assert line_of("a:\n  b:\n    - c: 1\n", ("a", "b", 0, "d", "e")) == 3
    assert line_of("a: 1", ("x",)) == 1
    assert dotted(("spec", "a.b/c", 0, "d")) == "spec[a.b/c][0].d"


def test_files_that_can_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "big.yaml").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    (tmp_path / "binary.yaml").write_bytes(b"a: 1\n\x00\x01")
    (tmp_path / "latin.yaml").write_bytes("a: 1\nb: é\n".encode("latin-1"))
    (tmp_path / "utf16.yaml").write_bytes((CLAIM % "wide").encode("utf-16"))
    (tmp_path / "bom.yaml").write_bytes((CLAIM % "marked").encode("utf-8-sig"))
    (tmp_path / "note.txt").write_text(CLAIM % "ignored")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "round.yaml").symlink_to(tmp_path / "round.yaml")
    (tmp_path / "again.yaml").symlink_to(tmp_path / "bom.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.yaml")
        began = time.monotonic()
        found = load(["."])
    assert time.monotonic() - began < 5
    assert sorted(o.name for o in found.objects) == ["marked", "wide"]
    told = {p.reference: p.message for p in found.problems}
    assert "larger than 32 MiB" in told["big.yaml"]
    assert "binary" in told["binary.yaml:2"]
    assert "UTF-8" in told["latin.yaml:2"]
    assert "no regular file" in told["pipe.yaml"]
    assert set(told) == {
        "big.yaml",
        "binary.yaml:2",
        "latin.yaml:2",
        "pipe.yaml",
        "round.yaml",
        "socket.yaml",
    }


def test_missing_inputs_say_what_to_do() -> None:
    for name in ("nowhere.yaml", "a\0b", "x" * 5000):
        with pytest.raises(InputError, match="Give manifests"):
            load([name])


def test_charts_and_kustomizations_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / "chart" / "templates").mkdir(parents=True)
    (tmp_path / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: x\nversion: 1.0.0\n")
    (tmp_path / "chart" / "templates" / "a.yaml").write_text("{{ broken }}")
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "kustomization.yaml").write_text("resources: [a.yaml]\n")
    (tmp_path / "base" / "a.yaml").write_text(CLAIM % "a")
    found = load(["chart", "base"])
    assert [o.name for o in found.objects] == ["a"] and found.problems == ()
    assert [note.split()[0] for note in found.notes] == ["chart", "base"]


def test_a_chart_is_rendered_where_helm_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "helm").write_text(
        '#!/bin/sh\nprintf "apiVersion: v1\\nkind: Pod\\nmetadata: {name: $4}\\n" "$3"\n'
    )
    (tools / "helm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: x\nversion: 1.0.0\n")
    found = load([str(tmp_path / "chart")])
    assert [o.kind for o in found.objects] == ["Pod"]
    assert found.objects[0].source.origin == "chart (helm template)"
    (tools / "helm").write_text("#!/bin/sh\necho 'no such value' >&2\nexit 1\n")
    assert "no such value" in load([str(tmp_path / "chart")]).notes[0]


def test_paths_of_the_machine_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "deep" / "repo"
    place.mkdir(parents=True)
    (place / "a.yaml").write_text(CLAIM % "a")
    monkeypatch.chdir(tmp_path / "deep")
    assert load(["repo"]).objects[0].source.reference() == "repo/a.yaml:1"
    assert load([str(place)]).objects[0].source.reference() == "repo/a.yaml:1"
    monkeypatch.chdir("/")
    for given in (str(place), str(place) + "/"):
        shown = load([given]).objects[0].source.reference()
        assert shown == os.path.relpath(place / "a.yaml", "/") + ":1"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert load([str(place)]).objects[0].source.reference() == "repo/a.yaml:1"
    assert load(["../deep/repo"]).objects[0].source.reference() == "repo/a.yaml:1"
    assert load([str(place / "a.yaml")]).objects[0].source.reference() == "repo/a.yaml:1"


HOSTILE_TEXTS = [
    "--" * 60_000, "--output" * 20_000, "train-" * 30_000, "output_" * 25_000, "/a " + "(" * 150_000,
    "file:" * 30_000, "a.b." * 40_000, "fsync" * 30_000, "$(A" * 50_000, "'" * 100_000, ", " * 60_000,
    "exports /a (rw, " * 9_000, "Grace_Period = " * 10_000, "sync_files" * 15_000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=lambda t: t[:12])
def test_no_text_in_an_object_keeps_a_rule_busy(text: str) -> None:
    data = {"run.sh": text, "exports": text, "conf": f"x = {text}"}
    pod = {"command": ["sh", "-c", text], "args": [text, f"--{text}"],
           "env": [{"name": text, "value": text}], "image": "postgres:16",
           "volumeMounts": [{"name": "c", "mountPath": "/c"}]}  # fmt: skip
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data},
        {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"},
         "spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {
             "containers": [pod], "volumes": [{"name": "c", "configMap": {"name": "c"}}]}}}}}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"},
         "provisioner": "ebs.csi.aws.com", "mountOptions": [text], "parameters": {text: text}},
    ]  # fmt: skip
    began = time.process_time()
    audit(read_texts({"a.json": orjson.dumps(objects).decode()}), RULES)
    assert time.process_time() - began < 3


def test_one_name_in_many_files_costs_no_more() -> None:
    texts = {}
    for n in range(3000):
        texts[f"overlays/team-{n}/class.yaml"] = CLASS
        texts[f"overlays/team-{n}/claim.yaml"] = CLAIM % "data" + "spec: {storageClassName: fast}\n"
    began = time.process_time()
    found = build(read_texts(texts))
    assert time.process_time() - began < 5
    for claim in found.of(Claim):
        assert claim.storage is not None
        assert claim.storage.obj.source.origin.split("/")[1] == claim.obj.source.origin.split("/")[1]
