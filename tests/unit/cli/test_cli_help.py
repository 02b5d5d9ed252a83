"""The help of every command: groups, examples that parse, a page; and the examples that come along."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from quarterdeck.cli.argument import DOCS
from quarterdeck.cli.examples import FOLDER
from quarterdeck.cli.main import _parser, main

ROOT = Path(__file__).parents[3]
EXAMPLE = re.compile(r"^  (?:.* \| )?quarterdeck (.*?)(?:  +#.*| [|>] .*)?$", re.MULTILINE)


def commands() -> dict[str, argparse.ArgumentParser]:
    [action] = [each for each in _parser(())._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(action.choices)


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    groups = re.findall(r"^  ([a-z ]+):$", printed, re.MULTILINE)
    assert groups == [
        "a cluster on this machine",
        "a real cluster",
        "look at any cluster",
        "develop",
        "operators",
    ]
    for name in commands():
        assert re.search(rf"^    {name} +\S", printed, re.MULTILINE), f"{name} is in no group, or has no line"


@pytest.mark.parametrize("name", commands())
def test_each_help_ends_with_examples_and_a_page(name: str) -> None:
    text = commands()[name].format_help()
    examples = EXAMPLE.findall(text.partition("\nexamples:\n")[2])
    assert examples
    for example in examples:
        assert shlex.split(example)[0] == name
        _parser(words := shlex.split(example)).parse_args(words)
    page = re.search(rf"^docs: {re.escape(DOCS)}/([\w/-]+)/(?:#([\w-]+))?$", text, re.MULTILINE)
    assert page is not None
    file = ROOT / "docs" / f"{page[1]}.md"
    assert file.is_file(), file
    if page[2]:
        headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
        assert page[2] in [heading.lower().replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("name", commands())
def test_every_option_says_what_it_is(name: str) -> None:
    parsers = [commands()[name]]
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers.extend(action.choices.values())
            elif action.option_strings:
                assert action.help, (parser.prog, action.option_strings)
                assert not action.help.startswith(("default:", "(default", "of the ")), (
                    parser.prog,
                    action.help,
                )


def test_every_folder_of_examples_is_listed_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def test_an_example_is_printed_as_one_stream(capsys: pytest.CaptureFixture[str]) -> None:
    from quarterdeck.api.manifest import load_documents

    assert main(["examples", "kai"]) == 0
    kinds = [document["kind"] for document in load_documents(capsys.readouterr().out)]
    assert {"Queue", "PodGroup", "JobSet"} <= set(kinds)
    assert main(["examples", "kai/refused/cycle.yaml"]) == 0
    assert capsys.readouterr().out == (FOLDER / "kai" / "refused" / "cycle.yaml").read_text()


def test_examples_are_copied_into_a_new_folder_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["examples", "--to", str(tmp_path / "all")]) == 0
    assert (tmp_path / "all" / "tutorial" / "team_operator" / "webhook.py").is_file()
    assert main(["examples", "--to", str(tmp_path / "all")]) == 0
    assert "has them already" in capsys.readouterr().out
    (tmp_path / "all" / "kai" / "1-queues.yaml").write_text("mine")
    assert main(["examples", "--to", str(tmp_path / "all")]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["examples", "grove", "--to", str(tmp_path / "one")]) == 0
    assert (tmp_path / "one" / "1-inference.yaml").is_file()
