"""`quarterdeck examples`: the examples that come with the package, listed, printed or copied."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path
from typing import Any, Final

from .argument import did_you_mean
from .error import CommandError

FOLDER: Final = Path(__file__).resolve().parent.parent / "examples"
"""In the wheel a folder of the package; in a checkout a link to the one at the top."""
_LISTED: Final = re.compile(r"^- `([\w-]+)`: (.+)$", re.MULTILINE)
_DESCRIPTION: Final = """\
Without a name: list the examples. With one: print its manifests as one YAML stream for `kubectl apply -f -`.
A path such as grove/refused/circle.yaml prints that file.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "examples", help="list, print or copy the examples that come with it", description=_DESCRIPTION
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="an example, or a file of one")
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", help="copy all of them, or the one named, into this new folder"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    path = _found(arguments.name) if arguments.name else FOLDER
    if arguments.to is not None:
        _copy(path, arguments.to)
    elif path == FOLDER:
        print(_listing(), end="")
    elif path.is_dir():
        print("".join(_stream(path)), end="")
    else:
        print(path.read_text(), end="")
    return 0


def _found(name: str) -> Path:
    path = (FOLDER / name).resolve()
    if not path.is_relative_to(FOLDER.resolve()) or not path.exists():
        names = [name for name, _ in _descriptions()]
        raise CommandError(f"no example {name!r}; there are: {', '.join(names)}{did_you_mean(name, names)}")
    return path


def _descriptions() -> list[tuple[str, str]]:
    return _LISTED.findall((FOLDER / "README.md").read_text())


def _listing() -> str:
    listed = _descriptions()
    width = max(len(name) for name, _ in listed)
    return "".join(f"{name:<{width}}  {text}\n" for name, text in listed)


def _stream(folder: Path) -> list[str]:
    """The manifests directly in a folder, as one YAML stream."""
    manifests = [path for path in sorted(folder.glob("*.yaml")) if path.name != "story.yaml"]
    if not manifests:
        files = sorted(path.relative_to(FOLDER) for path in folder.rglob("*") if path.is_file())
        raise CommandError(f"{folder.name} has no manifests; its files are: {', '.join(map(str, files))}")
    return [f"---\n{path.read_text().removeprefix('---').lstrip()}" for path in manifests]


def _copy(path: Path, target: Path) -> None:
    if target.exists():
        if path.is_dir() and _has_all(path, target):
            print(f"{target} has them already")
            return
        raise CommandError(f"{target} exists already; --to makes a new folder")
    if path.is_dir():
        shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.mkdir(parents=True)
        shutil.copy(path, target)
    print(f"copied to {target}")


def _has_all(path: Path, target: Path) -> bool:
    """Whether a folder has all files of another one, as they are there."""
    files = [each.relative_to(path) for each in path.rglob("*") if each.suffix != ".pyc" and each.is_file()]
    return all((target / each).is_file() and _same(path / each, target / each) for each in files)


def _same(first: Path, second: Path) -> bool:
    return first.read_bytes() == second.read_bytes()
