"""Any text, and any shape of object: nothing crashes, and one object's findings are its own."""

from __future__ import annotations

from typing import Any

import orjson
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyzer.core.finding import Verdict
from analyzer.pipeline.rules import object_rules
from k8s.audit import audit
from k8s.catalogue import drivers, options
from k8s.edit import edited
from k8s.fix import mend
from k8s.kinds import KINDS
from k8s.manifests import read_texts
from k8s.objects import Path
from k8s.options import hazards, split
from k8s.yaml_text import BadYaml, line_of, parse
from tests.unit.k8s.test_fixtures import FILES

RULES = object_rules()
SETTINGS = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
BASES = [
    path.read_text("utf-8") for path in FILES if "helm" not in path.name and "duplicate" not in path.name
]

WORDS = [
    "",
    "data",
    "a/b",
    "{{x}}",
    "$(X)",
    "${",
    "yes",
    "0",
    "-1",
    "ReadWriteMany",
    "Block",
    "postgres:16",
    "--output_dir",
    "/ckpt",
    "barrier=0",
    "soft,nolock",
    "nfsvers=3",
    "é\u202e\x00",
]
words = st.sampled_from([*WORDS, "x" * 3000, *(driver.name for driver in drivers()[:12])])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    words,
    st.text(max_size=8),
)
KEYS = [
    "metadata",
    "name",
    "namespace",
    "annotations",
    "spec",
    "parameters",
    "mountOptions",
    "provisioner",
    "volumes",
    "containers",
    "template",
    "volumeMounts",
    "mountPath",
    "env",
    "args",
    "command",
    "data",
    "accessModes",
    "csi",
    "driver",
    "driverName",
    "volumeAttributes",
    "claimName",
    "persistentVolumeClaim",
    "storageClassName",
    "items",
    "replicas",
    "ownerReferences",
    "claimRef",
    "envFrom",
    "emptyDir",
    "image",
    "storage-analyzer/ignore.qos-none",
]
keys = st.sampled_from(KEYS)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=6)),
    max_leaves=25,
)


def paths(data: Any, path: Path = ()) -> list[Path]:
    found = [path] if path else []
    items: Any = (
        data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    )
    for key, value in items:
        found += paths(value, (*path, key))
    return found


def replaced(data: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    copy: Any = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = replaced(data[path[0]], path[1:], value)
    return copy


@SETTINGS
@given(st.one_of(st.text(max_size=300), st.text(alphabet=" \n\t-:[]{}&*!|>'\"#%@`ab<?,0", max_size=200)))
def test_no_text_crashes_it(text: str) -> None:
    last = text.count("\n") + 2
    try:
        data, _ = parse(text)
        places = [line_of(text, path) for path in paths(data)[:20]]
    except BadYaml as error:
        places = [error.line]
    assert all(1 <= line <= last for line in places)
    audit(read_texts({"a.yaml": text}), RULES)


@SETTINGS
@given(st.sampled_from(KINDS), trees)
def test_no_shape_of_an_object_crashes_a_rule(kind: Any, body: Any) -> None:
    data = {**(body if isinstance(body, dict) else {"spec": body}), "kind": kind.name}
    data["apiVersion"] = f"{kind.group}/{kind.versions[0]}".lstrip("/")
    result = audit(read_texts({"a.json": orjson.dumps(data).decode()}), RULES)
    assert not [j for j in result.outcome.judgements if "the rule failed" in j.reason]


@SETTINGS
@given(st.sampled_from(BASES), st.data(), trees)
def test_no_change_of_a_manifest_crashes_a_rule(text: str, draw: st.DataObject, value: Any) -> None:
    documents = list(yaml.safe_load_all(text))
    index = draw.draw(st.integers(0, len(documents) - 1))
    path = draw.draw(st.sampled_from(paths(documents[index])))
    documents[index] = replaced(documents[index], path, value)
    dumped = yaml.safe_dump_all(documents)
    result = audit(read_texts({"a.yaml": dumped}), RULES)
    assert not [j for j in result.outcome.judgements if "the rule failed" in j.reason]
    mend({"a.yaml": dumped}, lambda delivery: audit(delivery, RULES).outcome.findings)


@SETTINGS
@given(st.sampled_from(BASES), st.sampled_from(BASES), st.booleans())
def test_an_unrelated_document_changes_no_other_finding(text: str, other: str, before: bool) -> None:
    renamed = []
    for document in yaml.safe_load_all(other):
        dumped = yaml.safe_dump(document)
        for name in (
            "shared",
            "fast",
            "rbd",
            "ckpt",
            "train",
            "ml",
            "gold",
            "data",
            "server",
            "replicated",
            "script",
        ):
            dumped = dumped.replace(f"{name}\n", f"{name}-other\n")
        renamed.append(dumped)
    alone = audit(read_texts({"a.yaml": text}), RULES).outcome
    files = {"a.yaml": text, "b.yaml": "---\n".join([*renamed, "[ broken"])}
    if before:
        files = dict(reversed(files.items()))
    together = audit(read_texts(files), RULES).outcome
    own = [f for f in together.findings if f.evidence[0].startswith("a.yaml")]
    siblings = {
        "vac-mixed-keys",
        "vac-unreferenced",
        "vac-dangling",
    }  # these look at all classes and claims
    assert [f for f in own if f.rule not in siblings] == [
        f for f in alone.findings if f.rule not in siblings
    ]
    for one, two in zip(alone.judgements, together.judgements, strict=True):
        if one.verdict is Verdict.VIOLATED and one.rule not in siblings:
            assert two.verdict is Verdict.VIOLATED


@SETTINGS
@given(st.text(max_size=60), st.sampled_from(sorted(options())))
def test_no_mount_option_crashes_it(text: str, filesystem: str) -> None:
    found = split(text, ("mountOptions", 0))
    list(hazards(found, filesystem, "3"))


@SETTINGS
@given(trees, st.data(), st.one_of(st.none(), st.booleans(), words))
def test_an_edit_changes_what_it_should_and_nothing_else(
    tree: Any, draw: st.DataObject, value: Any
) -> None:
    flow = draw.draw(st.sampled_from([None, False, True]))
    text = yaml.safe_dump({"a": tree, "z": 1}, default_flow_style=flow, allow_unicode=True)
    data, _ = parse(text)
    path = draw.draw(st.sampled_from(paths(data)))
    renewed, _ = parse(edited(text, [(path, value)]))
    if renewed == data:
        return
    if value is not None:
        assert renewed == replaced(data, path, value)
    else:
        kept = [p for p in paths(data) if p[0] != path[0]]
        assert all(p in paths(renewed) for p in kept)
