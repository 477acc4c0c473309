"""The command line: exit codes, one line for an expected error, quiet when the reader goes away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analyzer import __version__, cli
from analyzer.core.errors import AnalyzerError, InputError, NothingToCheckError
from analyzer.pipeline import rules as pipeline

ROOT = Path(__file__).resolve().parents[2]
RULES = pipeline.all_rules()


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, list(arguments), prog_name="storage-analyzer")
    return result.exit_code, result.stdout, result.stderr


def test_version() -> None:
    assert run("--version") == (0, f"storage-analyzer {__version__}\n", "")


@pytest.mark.parametrize("arguments", [("-h",), ("--help",)])
def test_help_names_the_commands_and_exit_codes(arguments: tuple[str, ...]) -> None:
    code, out, _ = run(*arguments)
    assert code == 0
    for word in ("rules", "explain", "0  clean", "4  something that was asked could not be judged"):
        assert word in out


@pytest.mark.parametrize("command", ["rules", "explain"])
def test_every_command_shows_examples(command: str) -> None:
    code, out, _ = run(command, "-h")
    assert code == 0
    assert f"Examples:\n    storage-analyzer {command}" in out


def test_rules_as_table_and_as_json() -> None:
    _, out, _ = run("rules")
    assert [line.split()[0] for line in out.splitlines()] == [rule.id for rule in RULES]
    _, out, _ = run("rules", "--format", "json")
    assert [item["id"] for item in json.loads(out)] == [rule.id for rule in RULES]


def test_an_unknown_rule_is_one_line_and_exit_code_2() -> None:
    code, out, err = run("explain", "no-such-thing")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("storage-analyzer: no rule is named 'no-such-thing'.")


@pytest.mark.parametrize(
    "arguments", [("frobnicate",), ("rules", "--format", "xml"), ("explain",), ("--loud",)]
)
def test_bad_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "Usage: storage-analyzer" in err


@pytest.mark.parametrize(
    ("error", "code"), [(InputError("it is not there"), 2), (NothingToCheckError("it is empty"), 3)]
)
def test_an_expected_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: AnalyzerError, code: int
) -> None:
    monkeypatch.setattr(pipeline, "list_rules", _raiser(error))
    assert run("rules") == (code, "", f"storage-analyzer: {error}\n")


def test_an_interrupt_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "list_rules", _raiser(KeyboardInterrupt()))
    assert run("rules") == (130, "", "storage-analyzer: interrupted\n")


def test_a_defect_still_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "list_rules", _raiser(ZeroDivisionError()))
    assert isinstance(CliRunner().invoke(cli.app, ["rules"]).exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("command", "stub"),
    [
        ("rules", "rules.list_rules = lambda **_: input() * 999"),
        ("filter", "filters.render = lambda _, console: console.print(input() * 999)"),
    ],
)
def test_a_reader_that_goes_away_is_no_error(command: str, stub: str) -> None:
    # the command waits for a line of input, so that the reader is surely gone when it prints
    script = f"from analyzer import cli; from analyzer.pipeline import filters, rules; {stub}; cli.main()"
    with subprocess.Popen(
        [sys.executable, "-c", script, command],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(b"text\n")
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "analyzer", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == f"storage-analyzer {__version__}\n"


def _raiser(error: BaseException) -> object:
    def fail(**_: object) -> str:
        raise error

    return fail
