"""How `quarterdeck run` runs the operators."""

from __future__ import annotations

import argparse

from quarterdeck.cli import run


def test_missing_permissions_are_looked_for_at_start() -> None:
    options = run._options(_parsed())
    assert options.manager.check_permissions


def test_one_of_several_leads_unless_told_otherwise() -> None:
    assert run._options(_parsed()).leader_election is not None
    assert run._options(_parsed("--no-leader-election")).leader_election is None


def _parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    run.add_command(parser.add_subparsers())
    return parser.parse_args(["run", *words])
