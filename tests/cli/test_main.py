"""Exit codes, and one line on stderr for each mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import proteus.cli.cluster
from proteus.cli import main, one_line

MISTAKES = {
    "no command": ([], "COMMAND"),
    "unknown command": (["simulat"], "simulat"),
    "unknown flag": (["simulate", "--model", "gpt2", "--cluster", "dgx-a100", "--tensor", "2"], "--tensor"),
    "not a number": (["simulate", "--model", "gpt2", "--cluster", "dgx-a100", "--tp", "two"], "'two'"),
    "not positive": (["simulate", "--model", "gpt2", "--cluster", "dgx-a100", "--dp", "0"], "'0'"),
    "no model": (["simulate", "--cluster", "dgx-a100"], "--model"),
    "unknown model": (["simulate", "--model", "lama3-8b", "--cluster", "dgx-a100"], "llama3-8b"),
    "unknown cluster": (["simulate", "--model", "gpt2", "--cluster", "dgx-a10"], "dgx-a100"),
    "unknown gpu": (["simulate", "--model", "gpt2", "--cluster", "dgx-a100", "--gpu", "a101-80gb"], "a100-80gb"),
    "missing file": (["cluster", "nowhere.xml"], "nowhere.xml"),
    "missing model file": (["simulate", "--model", "nowhere.json", "--cluster", "dgx-a100"], "nowhere.json"),
    "missing tree": (["simulate", "--tree", "nowhere.yaml", "--cluster", "dgx-a100"], "nowhere.yaml"),
    "two numbers of hosts": (["cluster", "dgx-a100:2", "--nodes", "3"], "disagree"),
    "no such device": (["cluster", "dgx-a100", "--slow-device", "x=2"], "'x'"),
    "no workers": (["validate", "--workers", "0"], "'0'"),
    "no worst rows": (["validate", "--worst=-1"], "'-1'"),
    "impossible degree": (["simulate", "--model", "gpt2", "--cluster", "dgx-a100", "--tp", "7"], "7"),
    "unknown schedule": (["simulate", "--model", "gpt2", "--cluster", "dgx-a100", "--schedule", "1f2b"], "1f1b"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_exit_2(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, word = MISTAKES[name]
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("proteus") and err.count("\n") == 1 and err.endswith("\n")
    assert word in err


def test_json_mistakes_keep_stdout_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "dgx-a10", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_interrupt_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(proteus.cli.cluster, "load_cluster", interrupted)
    assert main(["cluster", "dgx-a100"]) == 130
    assert capsys.readouterr().err == "proteus: interrupted\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"proteus {version('proteus-sim')}\n"


def test_one_line_drops_the_picture_below() -> None:
    assert one_line("\nrank 1 waits\n0F0 0F1\n") == "rank 1 waits"


@pytest.mark.parametrize(
    "command", [[str(Path(sys.executable).with_name("proteus"))], [sys.executable, "-m", "proteus.cli"]]
)
def test_both_ways_to_start_it(command: list[str]) -> None:
    run = subprocess.run([*command, "cluster", "dgx-a100", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["n_gpus"] == 8


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = "import sys; from proteus.cli import main; sys.exit(main(['simulate', '--help']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
