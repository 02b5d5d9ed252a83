"""`quarterdeck grove`: wrong arguments and configurations, and telling a running operator to look again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from quarterdeck.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run"], "the following arguments are required: --config"),
        (["run", "--config", "x", "--bogus"], "unrecognized arguments: --bogus"),
        (["backends", "reload", "x"], "invalid int value: 'x'"),
    ],
)
def test_wrong_arguments_are_not_a_wrong_configuration(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["grove", *arguments])
    assert exit.value.code == 1
    assert text in capsys.readouterr().err


def test_a_wrong_configuration_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("schedulerName: foo")
    assert main(["grove", "run", "--config", str(file)]) == 2
    assert (
        'unsupported scheduler "foo" (supported: kai-scheduler, default-scheduler' in capsys.readouterr().err
    )


def test_backends_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grove", "backends"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert (first.split()[0], second.split()[0]) == ("kai-scheduler", "default-scheduler")


def test_a_running_operator_is_told_to_look_again(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, frame: told.append(number))
    try:
        assert main(["grove", "backends", "reload", str(os.getpid())]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert told == [signal.SIGHUP]
    nobody = 2**22 + 1  # more than a kernel gives out
    assert main(["grove", "backends", "reload", str(nobody)]) == 1
    assert f"process {nobody}: No such process" in capsys.readouterr().err
