"""Environment, names, images, logs, probes and frames: rules without a machine."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from quarterdeck.api import Quantity, decode
from quarterdeck.api.k8s import EndpointSlice, Probe, Service
from quarterdeck.api.k8s.pod import EnvVar
from quarterdeck.cluster.agent.container.container import stop_signal
from quarterdeck.cluster.agent.environment.variable import (
    ContainerConfigError,
    References,
    container_environment,
    expand,
    field_value,
    resource_value,
    service_environment,
)
from quarterdeck.cluster.agent.machine.usage import Process, Sample, machine_sample, rates, total_below
from quarterdeck.cluster.agent.network.hosts import hostname, hosts_file, namespace_names, resolver_file
from quarterdeck.cluster.agent.network.proxy import Backends, backends, loopback_address
from quarterdeck.cluster.agent.probe.handler import HandlerFailure
from quarterdeck.cluster.agent.probe.probe import ProbeCounter, watch_probe
from quarterdeck.cluster.agent.process.image import ImageRule, find_image
from quarterdeck.cluster.agent.record import log
from quarterdeck.cluster.agent.record.log import LogOptions, read_log, select_lines
from quarterdeck.cluster.agent.shim import attach
from quarterdeck.cluster.agent.shim.output import LogWriter
from quarterdeck.cluster.agent.stream.spdy import DICTIONARY
from quarterdeck.cluster.agent.volume.payload import write_payload

from .podkit import pod


def service(name: str, address: str, port: int = 80) -> Service:
    document = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"clusterIP": address, "ports": [{"name": "web", "port": port}]},
    }
    return decode(msgspec.json.encode(document), Service)


def slice_of(name: str, *endpoints: Mapping[str, object], port: int = 8080) -> EndpointSlice:
    document = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-1", "namespace": "n", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"name": "web", "port": port}],
    }
    return decode(msgspec.json.encode(document), EndpointSlice)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$(A)", "a"),
        ("x$(A)y$(B)", "xay$(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$A and $", "$A and $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("100$$", "100$"),
    ],
)
def test_variables_are_expanded_as_a_kubelet_does(text: str, wanted: str) -> None:
    assert expand(text, {"A": "a"}) == wanted


def test_what_is_missing_is_named() -> None:
    made = pod("main")
    container = made.spec.containers[0]

    by_key = container.evolve(
        env=decode(b'[{"name":"X","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]', tuple[EnvVar, ...])
    )
    with pytest.raises(ContainerConfigError, match='secret "s" not found'):
        container_environment(made, by_key, References({}, {"s": None}), {}, {})
    with pytest.raises(ContainerConfigError, match="couldn't find key k in Secret n/s"):
        container_environment(made, by_key, References({}, {"s": {"other": "x"}}), {}, {})
    assert container_environment(made, by_key, References({}, {"s": {"k": "v"}}), {}, {}) == {"X": "v"}


def test_fields_and_resources_as_text() -> None:
    made = pod("main")
    assert field_value(made, "metadata.labels['app']") == "x"
    assert field_value(made, "metadata.labels") == 'app="x"'
    with pytest.raises(ContainerConfigError):
        field_value(made, "spec.nothing")
    allocatable = {"cpu": Quantity("1900m"), "memory": Quantity("1Gi")}
    assert resource_value(made, "main", "limits.cpu", Quantity("0"), allocatable) == "2"
    assert resource_value(made, "main", "limits.memory", Quantity("1Mi"), allocatable) == "1024"
    assert resource_value(made, "main", "requests.cpu", Quantity("1m"), allocatable) == "0"


def test_services_are_in_the_environment() -> None:
    found = service_environment([service("my-db", "10.0.0.9")], {("n", "my-db"): "127.128.0.9"})
    assert found["MY_DB_SERVICE_HOST"] == "127.128.0.9"
    assert found["MY_DB_SERVICE_PORT_WEB"] == "80"
    assert found["MY_DB_PORT"] == found["MY_DB_PORT_80_TCP"] == "tcp://127.128.0.9:80"


def test_addresses_and_backends_of_services() -> None:
    assert loopback_address(service("a", "10.0.3.4")) == "127.128.3.4"
    assert loopback_address(service("a", "None")) == ""
    ready = {"addresses": ["127.64.0.5"], "conditions": {"ready": True}}
    gone = {"addresses": ["127.64.0.6"], "conditions": {"ready": False}}
    found = backends([service("a", "10.0.3.4")], [slice_of("a", ready, gone)])
    assert found == {("127.128.3.4", 80): Backends((("127.64.0.5", 8080),))}


def test_the_hosts_file_has_every_form_of_a_name() -> None:
    endpoint = {"addresses": ["127.64.0.5"], "hostname": "p-0", "conditions": {"ready": True}}
    names = namespace_names([service("crew", "None")], [slice_of("crew", endpoint)], {})
    aliases = [{"ip": "1.2.3.4", "hostnames": ["far", "away"]}]
    made = pod("main", hostname="me", subdomain="crew", hostAliases=aliases)
    text = hosts_file(made, "127.64.0.9", names).decode()
    assert "127.64.0.9\tme.crew.n.svc.cluster.local me.crew.n.svc me.crew.n me.crew me\n" in text
    assert "127.64.0.5\tp-0.crew.n.svc.cluster.local p-0.crew.n.svc p-0.crew.n p-0.crew\n" in text
    assert "1.2.3.4\tfar\taway\n" in text
    assert "127.64.0.5\tcrew.n.svc.cluster.local" in text


def test_names_end_at_what_a_machine_takes() -> None:
    assert len(hostname(pod("main").evolve(metadata=pod().metadata.evolve(name="x" * 80)))) == 63
    assert (
        resolver_file(pod("main"))
        == b"search n.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
    )


def test_images_are_found_by_their_full_names() -> None:
    rules = [ImageRule(pattern="docker.io/library/python:*", command=("python3",)), ImageRule(pattern="*")]
    assert find_image(rules, "python") is rules[0]
    assert find_image(rules[:1], "ruby") is None


def test_log_lines_in_the_format_of_cri(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", max_bytes=1 << 20, max_files=3)
    writer.write(b"stdout", b"one\ntw")
    writer.write(b"stderr", b"oops\n")
    writer.write(b"stdout", b"o\n" + b"x" * 20_000 + b"\nend")
    writer.close()
    raw = (tmp_path / "log").read_bytes().splitlines()
    assert [line.split(b" ", 3)[1:3] for line in raw] == [
        [b"stdout", b"F"],
        [b"stderr", b"F"],
        [b"stdout", b"F"],
        [b"stdout", b"P"],
        [b"stdout", b"F"],
        [b"stdout", b"P"],
    ]
    assert (
        b"".join(select_lines(raw, LogOptions(stream="stdout"))) == b"one\ntwo\n" + b"x" * 20_000 + b"\nend"
    )
    assert b"".join(select_lines(raw, LogOptions(stream="stderr"))) == b"oops\n"


async def test_a_log_that_has_been_put_aside_is_read_from_the_beginning(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", max_bytes=2000, max_files=5)
    for number in range(100):
        writer.write(b"stdout", f"line {number}\n".encode())
    writer.close()
    assert (tmp_path / "log.1").exists()
    text = b"".join([piece async for piece in read_log(tmp_path, LogOptions())]).decode()
    assert text.splitlines() == [f"line {number}" for number in range(100)]
    tail = b"".join([piece async for piece in read_log(tmp_path, LogOptions(tail=50))]).decode()
    assert tail.splitlines() == [f"line {number}" for number in range(50, 100)]


@pytest.mark.parametrize(("follow", "shown"), [(False, ["one"]), (True, ["one", "two"])])
async def test_a_line_that_is_written_while_the_tail_is_read_comes_once_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follow: bool, shown: list[str]
) -> None:
    writer = LogWriter(tmp_path / "log", max_bytes=2000, max_files=5)
    writer.write(b"stdout", b"one\n")
    find_tail = log._tail

    def find_late(*words: object) -> list[bytes]:
        writer.write(b"stdout", b"two\n")
        writer.close()
        (tmp_path / "exit.json").write_text("{}")
        return find_tail(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(log, "_tail", find_late)
    pieces = [piece async for piece in read_log(tmp_path, LogOptions(tail=1, follow=follow))]
    assert b"".join(pieces).decode().splitlines() == shown


def test_old_files_of_a_log_go(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", max_bytes=500, max_files=3)
    for number in range(200):
        writer.write(b"stdout", f"line {number}\n".encode())
    writer.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "log.1", "log.2"]


def test_probes_need_so_many_in_a_row() -> None:
    counter = ProbeCounter(Probe(failure_threshold=3, success_threshold=2), is_good=True)
    told = [counter.count(each) for each in (False, False, True, False, False, False, True, True)]
    assert told == [False, False, False, False, False, True, False, True]
    assert counter.is_good


async def test_a_probe_that_ends_its_container_asks_no_more() -> None:
    told: list[bool] = []

    async def ask(timeout: float) -> None:
        raise HandlerFailure("no")

    probe = Probe(period_seconds=1, failure_threshold=1)
    await watch_probe(
        probe,
        ask,
        is_good=True,
        started_ago=0.0,
        on_failure=lambda _: None,
        on_state=told.append,
        ends_when_bad=True,
    )
    assert told == [False]


@pytest.mark.parametrize(
    ("name", "number"),
    [("SIGQUIT", 3), ("quit", 3), ("10", 10), ("SIGRTMIN+3", 37), ("", 15), ("SIGNONE", 15), ("999", 15)],
)
def test_the_signal_that_ends_a_program_has_a_name_or_a_number(name: str, number: int) -> None:
    assert stop_signal(name) == number


def test_frames_come_out_as_they_went_in() -> None:
    buffer = bytearray(attach.frame(1, b"hello") + attach.frame(5, b"") + attach.frame(2, b"half")[:-2])
    assert attach.take_frames(buffer) == [(1, b"hello"), (5, b"")]
    assert len(buffer) == 7


def test_the_dictionary_of_spdy_is_the_one_of_its_specification() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_files_of_a_volume_are_swapped_in_one_step(tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    assert write_payload(folder, {"a": (b"1", 0o644), "deep/b": (b"2", 0o600)})
    assert not write_payload(folder, {"a": (b"1", 0o644), "deep/b": (b"2", 0o600)})
    assert (folder / "deep/b").read_bytes() == b"2"
    assert write_payload(folder, {"a": (b"new", 0o644)})
    assert (folder / "a").read_bytes() == b"new"
    assert not (folder / "deep").exists()
    assert len([each for each in folder.iterdir() if each.name.startswith("..2")]) == 1


def test_a_machine_uses_what_is_neither_idle_nor_available() -> None:
    line = "cpu  300 50 100 9000 700 20 30 10 0 0"
    used = machine_sample(line, {"MemTotal": 1000, "MemAvailable": 400, "MemFree": 100})
    assert used == Sample((300 + 50 + 100 + 20 + 30 + 10) / os.sysconf("SC_CLK_TCK"), 600)


def test_usage_is_that_of_everything_below_a_process() -> None:
    processes = {
        1: Process(0, 9.0, 900),
        2: Process(1, 1.0, 100),
        3: Process(2, 2.0, 200),
        4: Process(9, 5.0, 500),
    }
    assert total_below(processes, 1) == Sample(3.0, 300, processes=2)
    container = ("uid", "c")
    before, after = {container: Sample(1.0, 50)}, {container: Sample(3.0, 300)}
    assert rates(before, after, 10.0) == {container: (200, 300)}
    assert rates({}, after, 10.0) == {container: (0, 300)}
