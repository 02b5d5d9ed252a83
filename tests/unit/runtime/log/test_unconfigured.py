"""Programs that never configured logging."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from quarterdeck.runtime.log.unconfigured import write_when_unconfigured

PROGRAM = """
import logging, sys
from quarterdeck.runtime.log import get_logger
{setup}
log = get_logger("quarterdeck.test")
log.info("all is well")
log.warning("cannot list", ValueError("no route"), kind="Pod", token="abc.secret")
"""


def run(setup: str = "") -> list[str]:
    command = [sys.executable, "-c", PROGRAM.format(setup=setup)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stderr.splitlines()


def test_warnings_are_written_with_their_values_and_without_secrets() -> None:
    [line] = run()
    assert '"error":"no route"' in line
    assert '"kind":"Pod"' in line
    assert "abc.secret" not in line


def test_whoever_configures_logging_gets_each_record_once() -> None:
    assert run("logging.basicConfig(level='INFO')") == [
        "INFO:quarterdeck.test:all is well",
        "WARNING:quarterdeck.test:cannot list",
    ]


def test_the_last_resort_is_one_handler_without_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    name = "quarterdeck-test-unconfigured"
    for _ in range(2):
        write_when_unconfigured(name)
    logger = logging.getLogger(name)
    logger.propagate = False
    logger.info("quiet")
    logger.warning("loud")
    [line] = capsys.readouterr().err.splitlines()
    assert line.split("\t")[1:] == ["WARNING", name, "loud"]
