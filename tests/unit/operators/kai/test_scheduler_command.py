"""`quarterdeck scheduler`: a cluster is recorded, and the record is asked."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from quarterdeck.cli.main import main
from quarterdeck.operators.kai.live import read_snapshot
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.scheduler import schedule
from quarterdeck.scheduler.plan import Recorded, decisions_text, dump
from tests.unit.operators.kai.kaikit import group, kai, pod, queue

SECRET = "hunter2"


async def record(file: Path) -> Recorded:
    """A cluster where one gang runs and one waits."""
    async with kai() as found:
        await found.add_nodes("n1", gpus=2)
        late = pod("late-0", "late", metadata={"annotations": {"token": SECRET, "pod-group-name": "late"}})
        late["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": SECRET}]
        await found.create(queue("team"), group("early"), pod("early-0", "early", gpu=2))
        await found.schedule()
        await found.set_phase("early-0", "Running")
        await found.create(group("late"), late)
        await found.settle()
        settings = KaiSettings()
        snapshot = await read_snapshot(found.client, settings, 1000.0)
    recorded = Recorded(snapshot=snapshot, settings=settings.for_cycle())
    write(file, recorded)
    return recorded


def write(file: Path, recorded: Recorded) -> None:
    file.write_bytes(dump(recorded))


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    await record(tmp_path / "cluster.json")
    return tmp_path / "cluster.json"


async def test_a_recorded_cluster_has_no_secrets_and_decides_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = await record(tmp_path / "cluster.json")
    assert SECRET not in (tmp_path / "cluster.json").read_text()
    assert main(["scheduler", "replay", str(tmp_path / "cluster.json")]) == 0
    told = capsys.readouterr().out
    assert told.encode() == decisions_text(schedule(recorded.snapshot, recorded.settings).decisions)
    assert '"Unschedulable"' in told


async def test_why_a_gang_waits(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scheduler", "explain", "podgroup", "late", "--snapshot", str(file)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("default/late: queue team, priority 50, preemptible\nnext cycle: 1 waiting\n")
    assert "default/early" in told
    assert main(["scheduler", "explain", "podgroup", "late", "--snapshot", str(file), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["pod_group"] == "default/late"
    assert main(["scheduler", "explain", "podgroup", "nobody", "--snapshot", str(file)]) == 1
    assert "there is no podgroup default/nobody" in capsys.readouterr().err


async def test_what_would_start_it(file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base = ["scheduler", "simulate", "--snapshot", str(file)]
    assert main([*base, "--add-nodes", "n1=1"]) == 0
    assert "default/late  team      1      1  waits" in capsys.readouterr().out
    changes = ["--queue", "team:gpu.limit=2", "--gang", "more:queue=team,pods=2,gpu=1,priority=100"]
    assert main([*base, *changes, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["pod_group"] for each in told["waits"]] == ["default/late", "default/more"]
    manifest = tmp_path / "node.yaml"
    manifest.write_text(
        "kind: Node\nmetadata: {name: n9}\n"
        "status: {allocatable: {cpu: 8, memory: 8Gi, pods: 9, nvidia.com/gpu: 1}}\n"
    )
    assert main([*base, "--apply", str(manifest)]) == 0
    assert "starts:\n  pod group" in capsys.readouterr().out
    assert main([*base, "--remove-node", "n1"]) == 0
    assert "node removed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--add-nodes", "n1"], "write NODE=COUNT"),
        (["--queue", "team"], "write NAME:FIELD=VALUE"),
        (["--gang", "a:pods=2"], "queue must be given"),
        (["--gang", "a:queue=team,pods=x"], "--gang a: "),
        (["--apply", "/no/such/file"], "No such file"),
        (["--remove-node", "n7"], "there is no node n7"),
    ],
)
async def test_wrong_changes_are_told(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    assert main(["scheduler", "simulate", "--snapshot", str(file), *arguments]) == 1
    assert text in capsys.readouterr().err


def test_a_file_that_is_no_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    assert main(["scheduler", "replay", str(wrong)]) == 1
    assert "is no snapshot" in capsys.readouterr().err
    assert main(["scheduler", "replay", str(tmp_path / "none.json")]) == 1


async def test_a_gang_is_found_by_the_name_of_its_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, uid = tmp_path / "cluster.json", "0f8fad5b-d9cb-469f-a165-70867728950e"
    recorded = await record(file)
    labels = {"jobset.sigs.k8s.io/jobset-name": "resnet", "app.kubernetes.io/part-of": "chat"}
    snapshot = recorded.snapshot
    renamed = {"late": f"pg-resnet-{uid}"}
    changed = replace(
        snapshot,
        pod_groups=tuple(
            replace(each, name=renamed.get(each.name, each.name)) for each in snapshot.pod_groups
        ),
        pods=tuple(
            replace(each, pod_group=renamed[each.pod_group], labels=labels)
            if each.pod_group in renamed
            else each
            for each in snapshot.pods
        ),
    )
    write(file, replace(recorded, snapshot=changed))
    source = ["--snapshot", str(file)]
    for name in (
        ["resnet"],
        ["default/resnet"],
        ["trainjob/resnet"],
        ["jobsets", "resnet"],
        ["pcs/chat"],
        [f"pg-resnet-{uid}"],
        ["podgroup", f"default/pg-resnet-{uid}"],
    ):
        assert main(["scheduler", "explain", *name, *source]) == 0, name
        assert capsys.readouterr().out.startswith(f"default/pg-resnet-{uid}: queue team")
    for wrong, told in (
        ("resnett", "there is no gang default/resnett in the snapshot; did you mean resnet?"),
        ("pcs/resnet", "there is no podcliqueset default/resnet in the snapshot"),
        ("elsewhere/resnet", "there is no gang elsewhere/resnet in the snapshot"),
    ):
        assert main(["scheduler", "explain", wrong, *source]) == 1
        assert told in capsys.readouterr().err
    assert main(["scheduler", "simulate", "--end", "early", *source, "-o", "json"]) == 0
    started = json.loads(capsys.readouterr().out)
    assert f"default/pg-resnet-{uid}" in json.dumps(started["starts"])
    assert "early" not in json.dumps(started)
