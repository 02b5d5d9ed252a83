"""Control groups on folders that stand for the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarterdeck.api import Quantity
from quarterdeck.api.k8s.pod import ResourceRequirements
from quarterdeck.cluster.agent.container import cgroup


def resources(requests: dict[str, str] | None = None, **limits: str) -> ResourceRequirements:
    return ResourceRequirements(
        limits={name: Quantity(each) for name, each in limits.items()},
        requests={name: Quantity(each) for name, each in (requests or {}).items()},
    )


@pytest.mark.parametrize(
    ("given", "shares", "weight"),
    [
        (resources(), "2", "1"),
        (resources({"cpu": "1"}), "1024", "100"),
        (resources({"cpu": "100m"}, cpu="2"), "102", "17"),
        (resources(cpu="500m"), "512", "59"),
        (resources({"cpu": "1m"}), "2", "1"),
        (resources({"cpu": "1000"}), "262144", "10000"),
    ],
)
def test_a_request_of_processors_is_a_share_of_busy_ones(
    given: ResourceRequirements, shares: str, weight: str
) -> None:
    assert cgroup.limit_files(given, 1)["cpu"]["cpu.shares"] == shares
    assert cgroup.limit_files(given, 2)["cpu"]["cpu.weight"] == weight


def test_limits_as_control_groups_have_them() -> None:
    limits = resources(cpu="250m", memory="64Mi")
    assert cgroup.limit_files(limits, 2)["cpu"]["cpu.max"] == "25000 100000"
    assert cgroup.limit_files(limits, 1)["cpu"]["cpu.cfs_quota_us"] == "25000"
    assert cgroup.limit_files(limits, 1)["memory"] == {"memory.limit_in_bytes": "67108864"}
    assert cgroup.limit_files(limits, 2)["memory"] == {"memory.max": "67108864", "memory.swap.max": "0"}
    none = {"pids": {"pids.max": "4096"}, "cpu": {"cpu.weight": "1"}, "memory": {}}
    assert cgroup.limit_files(resources(), 2) == none


def test_a_container_sees_its_groups_where_programs_look_for_them() -> None:
    base = "/sys/fs/cgroup"
    first = [f"{base}/{each}/quarterdeck-1/u-main-0" for each in ("cpu", "memory")]
    assert cgroup.cgroup_mounts(first) == {f"{base}/cpu": first[0], f"{base}/memory": first[1]}
    second = f"{base}/user.slice/quarterdeck-1/u-main-0"
    assert cgroup.cgroup_mounts([second]) == {base: second}
    assert cgroup.cgroup_mounts([]) == {}


def test_groups_are_removed_and_the_files_of_others_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cpu", "memory", "pids"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cgroup, "_ROOT", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)

    def never(_seconds: float) -> None:
        raise AssertionError("waited for a file to become a folder")

    monkeypatch.setattr("time.sleep", never)
    groups = cgroup.Cgroups("test")
    for made in groups.make("uid-main-0", resources(memory="1Mi")):
        for file in Path(made).iterdir():  # where the kernel's go with their group
            file.unlink()
    (tmp_path / "memory/quarterdeck-test/memory.stat").write_text("")
    groups.remove("")
    assert [each.name for each in (tmp_path / "memory/quarterdeck-test").iterdir()] == ["memory.stat"]
    assert list((tmp_path / "pids/quarterdeck-test").iterdir()) == []


@pytest.mark.parametrize(
    ("version", "used", "limit"),
    [(1, "memory.usage_in_bytes", "memory.limit_in_bytes"), (2, "memory.current", "memory.max")],
)
def test_a_container_never_has_less_memory_than_it_uses(
    version: int, used: str, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "group"
    (base / "c").mkdir(parents=True)
    monkeypatch.setattr(cgroup.Cgroups, "_find", lambda _self: (version, {"": base, "memory": base}))
    groups = cgroup.Cgroups("test")
    (base / "c" / used).write_text(f"{48 << 20}\n")
    (base / "c" / limit).write_text("max" if version == 2 else str(1 << 62))
    with pytest.raises(OSError, match=r"attempting to set memory limit \(33554432\) below current usage"):
        groups.change("c", resources(memory="32Mi"))
    groups.change("c", resources(memory="64Mi"))
    assert (base / "c" / limit).read_text() == str(64 << 20)
