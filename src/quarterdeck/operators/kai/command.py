"""`quarterdeck scheduler`: ask the gang scheduler about any cluster, without touching it."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quarterdeck.errors import ConfigError, reason_of

if TYPE_CHECKING:
    from quarterdeck.scheduler.plan import Change, Explanation, Recorded, Remedy

SNAPSHOT = """\
Record what the scheduler sees of a cluster: nodes, queues, groups, pods, as far as they matter to it. No
container, environment or annotation of a pod is in it, and no Secret. The file can be replayed, explained and
simulated anywhere.
"""
REPLAY = """\
Decide about a recorded snapshot, and print the decisions of the cycle, one JSON object a line. The same file
gives the same bytes, always.
"""
EXPLAIN = """\
Say on one screen why a pod group waits: what is missing, in which queue and which topology domain, which
gangs could make room for it and why they do not, and what would start it.
"""
SIMULATE = """\
Change a copy of a cluster, run scheduling cycles until nothing changes, and print what starts, what is
evicted, what waits and why, and the shares of queues before and after. Bound pods run, evicted pods are
created again, and no pod finishes.
"""

RESERVE = """\
The program of pods that reserve shared GPUs: find out which device the device plugin gave this container,
write it into the annotation of its pod ($POD_NAMESPACE/$POD_NAME), and hold it until the pod ends.
"""
EPILOG = """\
examples:
  quarterdeck scheduler explain trainjob/resnet
  quarterdeck scheduler simulate --add-nodes node-0=4
  quarterdeck scheduler snapshot -f cluster.json

docs: {docs}/scheduler/
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "scheduler", help="ask the gang scheduler: snapshot, replay, explain, simulate", epilog=EPILOG
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    snapshot = actions.add_parser(
        "snapshot", help="record what the scheduler sees of a cluster", description=SNAPSHOT
    )
    _add_cluster(snapshot)
    snapshot.add_argument("-f", "--file", type=Path, help="where to write it (default: standard output)")
    snapshot.set_defaults(run=run_snapshot)
    replay = actions.add_parser("replay", help="print the decisions for a snapshot", description=REPLAY)
    replay.add_argument("file", type=Path)
    replay.set_defaults(run=run_replay)
    explain = actions.add_parser("explain", help="say why a gang waits", description=EXPLAIN)
    explain.add_argument(
        "name",
        nargs="+",
        metavar="NAME",
        help="a gang as `quarterdeck top` calls it, or KIND/NAME: trainjob/resnet, jobset/resnet, pcs/chat, "
        "podgroup/resnet; also KIND NAME, and NAMESPACE/NAME",
    )
    _add_namespace(explain)
    _add_source(explain)
    explain.set_defaults(run=run_explain)
    simulate = actions.add_parser(
        "simulate", help="say what a change would start or evict", description=SIMULATE
    )
    _add_changes(simulate)
    _add_namespace(simulate)
    _add_source(simulate)
    simulate.set_defaults(run=run_simulate)
    _add_reserve(actions)


def _add_namespace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--namespace", default="default", help="namespace of the gang (default: %(default)s)"
    )


def _add_reserve(actions: Any) -> None:
    reserve = actions.add_parser("reserve", help="the program of a GPU reservation pod", description=RESERVE)
    reserve.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig of the cluster (default: $KUBECONFIG, the pod's, ~/.kube/config)",
    )
    reserve.add_argument("--context", default="", help="context of the kubeconfig (default: its current one)")
    reserve.set_defaults(run=run_reserve)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig of the cluster (default: $KUBECONFIG, the pod's, ~/.kube/config)",
    )
    parser.add_argument("--context", default="", help="context of the kubeconfig (default: its current one)")
    parser.add_argument("--config", type=Path, help="the operator's settings: operators: {kai: {...}}")


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--snapshot", type=Path, help="a recorded snapshot instead of a cluster")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        default="table",
        help="form of the output (default: table)",
    )
    _add_cluster(parser)


def _add_changes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--add-nodes",
        action="append",
        default=[],
        metavar="NODE=COUNT",
        help="add COUNT empty nodes that are like NODE",
    )
    parser.add_argument(
        "--remove-node", action="append", default=[], metavar="NODE", help="take this node away"
    )
    parser.add_argument(
        "--end",
        action="append",
        default=[],
        metavar="NAME",
        help="let this gang end: a name as for `explain`, such as trainjob/resnet",
    )
    parser.add_argument(
        "--queue",
        action="append",
        default=[],
        metavar="NAME:FIELD=VALUE,…",
        help="change a queue, such as vision:gpu.quota=16,priority=200",
    )
    parser.add_argument(
        "--gang",
        action="append",
        default=[],
        metavar="NAME:FIELD=VALUE,…",
        help="submit a gang of these: queue (required), pods, min, gpu, cpu, memory, priority, topology, "
        "required, preferred",
    )
    parser.add_argument(
        "--apply", action="append", default=[], type=Path, metavar="FILE", help="manifests to apply before"
    )
    parser.add_argument(
        "--cycles", type=int, default=100, help="the most cycles to run (default: %(default)s)"
    )


def run_snapshot(arguments: argparse.Namespace) -> int:
    from quarterdeck.scheduler.plan import dump

    data = dump(_read_cluster(arguments))
    if arguments.file is None:
        sys.stdout.write(data.decode())
    else:
        arguments.file.write_bytes(data)
    return 0


def run_reserve(arguments: argparse.Namespace) -> int:
    from quarterdeck.client import Client, Config
    from quarterdeck.errors import QuarterdeckError
    from quarterdeck.operators.kai.device import device_of, write_device

    async def reserve() -> None:
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        config = Config.load(arguments.kubeconfig or "", context=arguments.context)
        async with Client.connect(config) as client:
            device = await device_of(os.environ)
            await write_device(client, os.environ["POD_NAMESPACE"], os.environ["POD_NAME"], device)
        print(f"holding {device}", flush=True)
        await ended.wait()

    try:
        asyncio.run(reserve())
    except KeyError as error:
        raise ConfigError(f"{error.args[0]} is not set: take it from the pod's metadata") from error
    except QuarterdeckError as error:
        raise ConfigError(str(error)) from error
    return 0


def run_replay(arguments: argparse.Namespace) -> int:
    from quarterdeck.scheduler import schedule
    from quarterdeck.scheduler.plan import decisions_text

    recorded = _load(arguments.file)
    result = schedule(recorded.snapshot, recorded.settings)
    sys.stdout.write(decisions_text(result.decisions).decode())
    return 0


def run_explain(arguments: argparse.Namespace) -> int:
    import msgspec

    from quarterdeck.errors import SchemaError
    from quarterdeck.scheduler.plan import explain, gangs_named, remedies, verdict

    recorded = _recorded(arguments)
    name = "/".join(arguments.name)
    if name.count("/") > 1:
        name = name.partition("/")[2]  # podgroup NAMESPACE/NAME
    try:
        keys = gangs_named(recorded.snapshot, name, arguments.namespace)
        found = []
        for key in keys:
            hopeless = verdict(recorded, key)
            found.append((explain(recorded, key), hopeless, () if hopeless else remedies(recorded, key)))
    except SchemaError as error:
        raise ConfigError(str(error)) from error
    if arguments.output == "json":
        documents = [
            {**msgspec.structs.asdict(each), "verdict": hopeless, "remedies": cures}
            for each, hopeless, cures in found
        ]
        _print(documents[0] if len(documents) == 1 else documents, "json")
        return 0
    for place, (each, hopeless, cures) in enumerate(found):
        print("\n" * bool(place), end="")
        _print_explanation(each, hopeless, cures)
    return 0


def _print_explanation(found: Explanation, hopeless: str, cures: Sequence[Remedy]) -> None:
    print(found.text())
    if hopeless:
        print(hopeless)
    if cures:
        print("what would start it:")
    for each in cures:
        evicts = f" (and would move or evict {', '.join(each.evicts)})" if each.evicts else ""
        print(f"  {each.text}{evicts}")


def run_simulate(arguments: argparse.Namespace) -> int:
    from quarterdeck.errors import SchemaError
    from quarterdeck.scheduler.plan import simulate

    try:
        found = simulate(_recorded(arguments), *_changes(arguments), cycles=arguments.cycles)
    except SchemaError as error:
        raise ConfigError(str(error)) from error
    _print(found, arguments.output)
    return 0


def _print(found: Any, output: str) -> None:
    import msgspec

    if output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
    else:
        print(found.text())


def _recorded(arguments: argparse.Namespace) -> Recorded:
    return _load(arguments.snapshot) if arguments.snapshot is not None else _read_cluster(arguments)


def _load(file: Path) -> Recorded:
    from quarterdeck.errors import SchemaError
    from quarterdeck.scheduler.plan import load

    try:
        return load(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except SchemaError as error:
        raise ConfigError(f"{file} is no snapshot: {error}") from error


def _read_cluster(arguments: argparse.Namespace) -> Recorded:
    import msgspec

    from quarterdeck.client import Client, Config
    from quarterdeck.errors import QuarterdeckError
    from quarterdeck.operators.kai.live import read_snapshot
    from quarterdeck.operators.kai.settings import KaiSettings
    from quarterdeck.runtime.operator.settingsfile import read_settings
    from quarterdeck.scheduler.plan import Recorded

    try:
        settings = msgspec.convert(read_settings(arguments.config).operators.get("kai") or {}, KaiSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{arguments.config}: operators.kai: {reason_of(error)}") from error

    async def read() -> Recorded:
        config = Config.load(arguments.kubeconfig or "", context=arguments.context)
        async with Client.connect(config) as client:
            snapshot = await read_snapshot(client, settings, time.time())
        return Recorded(snapshot=snapshot, settings=settings.for_cycle())

    try:
        return asyncio.run(read())
    except QuarterdeckError as error:
        raise ConfigError(str(error)) from error


def _changes(arguments: argparse.Namespace) -> list[Change]:
    from quarterdeck.scheduler.plan import add_nodes, change_queue, end_gangs, remove_nodes

    changes: list[Change] = [_manifests(file) for file in arguments.apply]
    for text in arguments.add_nodes:
        like, _, count = text.rpartition("=")
        if not like or not count.isdecimal():
            raise ConfigError(f"--add-nodes {text}: write NODE=COUNT")
        changes.append(add_nodes(like, int(count)))
    if arguments.remove_node:
        changes.append(remove_nodes(*arguments.remove_node))
    if arguments.end:
        changes.append(end_gangs(*arguments.end, namespace=arguments.namespace))
    for text in arguments.queue:
        changes.append(change_queue(*_fields("--queue", text)))
    for text in arguments.gang:
        changes.append(_gang(*_fields("--gang", text)))
    return changes


def _fields(option: str, text: str) -> tuple[str, dict[str, str]]:
    name, _, rest = text.partition(":")
    pairs = [each.partition("=") for each in rest.split(",") if each]
    if not name or not pairs or not all(separator for _, separator, _ in pairs):
        raise ConfigError(f"{option} {text}: write NAME:FIELD=VALUE,FIELD=VALUE")
    return name, {field: value for field, _, value in pairs}


def _gang(name: str, fields: dict[str, str]) -> Change:
    from quarterdeck.api import Quantity
    from quarterdeck.scheduler.plan import submit_gang
    from quarterdeck.scheduler.resource import GPU, resources_of
    from quarterdeck.scheduler.snapshot import TopologyConstraint

    known = ("queue", "pods", "min", "gpu", "cpu", "memory", "priority", "topology", "required", "preferred")
    unknown = fields.keys() - set(known)
    if unknown or "queue" not in fields:
        raise ConfigError(f"--gang {name}: the fields are {', '.join(known)}, and queue must be given")
    try:
        amounts = {"cpu": "1", "memory": "1Gi", GPU: fields.get("gpu", "0")}
        amounts |= {key: fields[key] for key in ("cpu", "memory") if key in fields}
        pods = int(fields.get("pods", "1"))
        return submit_gang(
            name,
            queue=fields["queue"],
            pods=pods,
            minimum=int(fields.get("min", pods)),
            request=resources_of({key: Quantity(value) for key, value in amounts.items()}),
            priority=int(fields.get("priority", "50")),
            topology=TopologyConstraint(
                topology=fields.get("topology", ""),
                required_level=fields.get("required", ""),
                preferred_level=fields.get("preferred", ""),
            ),
        )
    except ValueError as error:
        raise ConfigError(f"--gang {name}: {error}") from error


def _manifests(file: Path) -> Change:
    import yaml

    from quarterdeck.operators.kai.logic.manifest import apply_manifest

    try:
        documents = [each for each in yaml.safe_load_all(file.read_text()) if each]
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{file}: {reason_of(error)}") from error

    def change(snapshot: Any) -> Any:
        for document in documents:
            snapshot = apply_manifest(snapshot, document)
        return snapshot

    return change
