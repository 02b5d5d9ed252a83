"""`quarterdeck torture`: find the bugs of any operator by what goes wrong around it."""

from __future__ import annotations

import argparse
import asyncio
import re
import shlex
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from .error import CommandError

if TYPE_CHECKING:
    from quarterdeck.testing.torture import Report, Scene, Workload

Json = dict[str, Any]
DESCRIPTION = """\
Find the bugs of an operator in any language. COMMAND is started with KUBECONFIG set, on a cluster of its own
with simulated nodes; a workload is played twice undisturbed, and then again and again while something goes
wrong: the process is killed after each of its writes, sees an old world, misses events, is refused, paused;
its objects are deleted and edited. Every end state is compared with the undisturbed one. `{port}` in COMMAND
becomes a free port.

Exits with 0 if nothing was found, 1 if something was, 2 if the operator could not be tried.
"""
_FOUND: Final = 1
_NOT_TRIED: Final = 2
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LINE_PAUSE: Final = 10.0
"""Seconds between two lines of progress where no terminal is."""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "torture",
        help="find the bugs of any operator: killed, misled, refused, paused",
        description=DESCRIPTION,
    )
    parser.add_argument(
        "--crd",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="CustomResourceDefinitions: a file or a folder; may be repeated",
    )
    parser.add_argument("--sample", type=Path, required=True, metavar="FILE", help="an object of the kind")
    parser.add_argument(
        "--workload",
        type=Path,
        metavar="FILE",
        help="steps to play, YAML (default: create, edit a field there and back, delete, create, delete)",
    )
    parser.add_argument(
        "--install",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="what must be there before: namespaces, configuration, roles; may be repeated",
    )
    parser.add_argument(
        "--service-account",
        default="",
        metavar="NAMESPACE/NAME",
        help="whom the operator is, with the roles that --install gives it (default: it may do everything)",
    )
    parser.add_argument("--nodes", type=int, default=3, metavar="N", help="simulated nodes (default: 3)")
    parser.add_argument(
        "--in-cluster",
        action="store_true",
        help="let it find a service account's files as in a pod, instead of KUBECONFIG (needs unshare)",
    )
    parser.add_argument(
        "--budget", type=_duration, default=600.0, metavar="TIME", help="such as 90s or 10m (default: 10m)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another order of the runs")
    parser.add_argument(
        "--replay", default="", metavar="SEED", help="one run again, by the seed of a finding"
    )
    parser.add_argument(
        "--patterns", default="", metavar="NAMES", help="only these, or all but those with - before them"
    )
    parser.add_argument("--list", action=_ListPatterns, nargs=0, help="list the patterns and exit")
    parser.add_argument(
        "--kept",
        default="",
        metavar="RESOURCES",
        help="what may outlive its object: persistentvolumeclaims,secrets",
    )
    parser.add_argument(
        "--patience",
        type=_duration,
        default=30.0,
        metavar="TIME",
        help="how long a disturbed step may take to come to rest (default: 30s)",
    )
    parser.add_argument(
        "--rest",
        type=_duration,
        default=8.0,
        metavar="TIME",
        help="without a write, after which an undisturbed step is over: more than it waits in between "
        "(default: 8s)",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="runs at once; needs {port} where ports are fixed"
    )
    parser.add_argument("--first", action="store_true", help="stop at the first finding")
    parser.add_argument(
        "--report",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="write it to FILE.json, FILE.xml (JUnit), FILE.html or FILE.txt; may be repeated",
    )
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the operator, behind --")
    parser.set_defaults(run=run)


class _ListPatterns(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from quarterdeck.testing.torture import PATTERNS

        width = max(map(len, PATTERNS))
        print("\n".join(f"{name:{width}}  {meaning}" for name, meaning in PATTERNS.items()))
        parser.exit()


def _duration(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: 90s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2]]


def run(arguments: argparse.Namespace) -> int:
    from quarterdeck.errors import QuarterdeckError
    from quarterdeck.runtime.log import configure
    from quarterdeck.testing.torture import as_text

    configure(level="ERROR")
    try:
        report = asyncio.run(_torture(arguments))
    except QuarterdeckError as error:
        print(f"quarterdeck torture: {error}", file=sys.stderr)
        return _NOT_TRIED
    print(as_text(report, _again(arguments)))
    return _FOUND if any(each.is_certain for each in report.findings) else 0


def _again(arguments: argparse.Namespace) -> str:
    """The command up to what differs in a replay."""
    words = ["quarterdeck", "torture", "--sample", str(arguments.sample)]
    for name in ("crd", "install"):
        words += [word for path in getattr(arguments, name) for word in (f"--{name}", str(path))]
    if arguments.workload is not None:
        words += ["--workload", str(arguments.workload)]
    return f"{shlex.join(words)} --replay %s -- {shlex.join(arguments.command)}"


async def _torture(arguments: argparse.Namespace) -> Report:
    from quarterdeck.testing.torture import FORMATS, Campaign, Seed

    for path in arguments.report:
        if path.suffix not in FORMATS:
            raise CommandError(f"--report {path}: name a file that ends in {', '.join(FORMATS)}")
    scene, workload = _scene(arguments)
    show = _Progress(arguments.budget)
    campaign = Campaign(
        scene,
        workload,
        budget=arguments.budget,
        seed=arguments.seed,
        patterns=_patterns(arguments.patterns),
        jobs=max(arguments.jobs, 1),
        stops_at_first=arguments.first,
        progress=show,
    )
    report = await (campaign.replay(Seed.parse(arguments.replay)) if arguments.replay else campaign.run())
    show.end()
    for path in arguments.report:
        path.write_text(FORMATS[path.suffix](report))
    return report


def _patterns(text: str) -> list[str]:
    from quarterdeck.testing.torture import PATTERNS

    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name.removeprefix("-") not in PATTERNS]
    if unknown:
        raise CommandError(f"--patterns: there is no {unknown[0]!r}; one of {', '.join(PATTERNS)}")
    without = {name[1:] for name in names if name.startswith("-")}
    chosen = [name for name in names if not name.startswith("-")]
    return [name for name in chosen or PATTERNS if name not in without]


def _scene(arguments: argparse.Namespace) -> tuple[Scene, Workload]:
    from dataclasses import replace

    from quarterdeck.testing.torture import (
        OPERATOR,
        Pace,
        Scene,
        changes_of,
        command_subject,
        is_namespaced,
        read_workload,
        schema_of,
        usual_workload,
    )

    definitions = [each for path in arguments.crd for each in _documents(path, "--crd")]

    def placed(document: Json) -> Json:
        if is_namespaced(definitions, document):
            document["metadata"].setdefault("namespace", "default")
        return document

    sample = placed(_one_document(arguments.sample, "--sample"))
    changes = changes_of(schema_of(definitions, sample), sample)
    if arguments.workload is None:
        valid = [each for each in changes.values() if each.is_valid]
        edit = next((each for each in valid if each.name.startswith("spec.replicas.")), None)
        edit = edit or next(iter(valid), None)
        workload = usual_workload(sample, [edit.there, edit.back] if edit is not None else [])
    else:
        folder = arguments.workload.parent
        steps = _documents(arguments.workload, "--workload")
        workload = read_workload(
            steps[0] if len(steps) == 1 else steps,
            sample,
            lambda each: placed(
                _one_document(folder / each, "--workload") if isinstance(each, str) else each
            ),
        )
    namespace, _, name = arguments.service_account.partition("/")
    if arguments.service_account and not name:
        raise CommandError(f"--service-account {arguments.service_account}: give NAMESPACE/NAME")
    user = f"system:serviceaccount:{namespace}:{name}" if name else OPERATOR
    scene = Scene(
        subject=command_subject(arguments.command, in_cluster=arguments.in_cluster),
        crds=[each for each in definitions if each.get("kind") == "CustomResourceDefinition"],
        install=[each for path in arguments.install for each in _documents(path, "--install")],
        nodes=arguments.nodes,
        user=user,
        is_admin=not name,
        pace=replace(Pace.real(), patience=arguments.patience, learning=arguments.rest),
        kept=frozenset(filter(None, arguments.kept.split(","))),
        changes=changes,
    )
    return scene, workload


def _documents(path: Path, option: str) -> list[Any]:
    import yaml

    from quarterdeck.api.manifest import load_documents
    from quarterdeck.errors import reason_of

    try:
        files = sorted(path.rglob("*.y*ml")) if path.is_dir() else [path]
        return [each for file in files for each in load_documents(file.read_bytes())]
    except (OSError, yaml.YAMLError) as error:
        raise CommandError(f"{option} {path}: {reason_of(error)}") from error


def _one_document(path: Path, option: str) -> Json:
    documents = _documents(path, option)
    if len(documents) != 1 or not isinstance(documents[0], dict) or "metadata" not in documents[0]:
        raise CommandError(f"{option} {path}: needs one object with apiVersion, kind and metadata")
    document: Json = documents[0]
    return document


class _Progress:
    """One line on a terminal, now and then one elsewhere."""

    def __init__(self, budget: float) -> None:
        self._budget: Final = budget
        self._began: Final = monotonic()
        self._told = 0.0
        self._is_terminal: Final = sys.stderr.isatty()

    def __call__(self, report: Report, doing: str) -> None:
        now = monotonic()
        if not self._is_terminal and now - self._told < _LINE_PAUSE:
            return
        self._told = now
        age = now - self._began
        runs = f"{report.runs}/{report.planned} runs" if report.planned else "learning"
        found = len(report.findings)
        line = f"{_clock(age)} of {_clock(self._budget)}  {runs}  {found} found  {doing}"
        if self._is_terminal:
            print(f"\r\033[K{line[:110]}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
