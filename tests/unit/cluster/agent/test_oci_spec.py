"""What the OCI runtime is told of a container: who it is, what it may, what it sees."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.cluster.agent.environment.variable import ContainerConfigError
from quarterdeck.cluster.agent.oci.capability import ALL, DEFAULT, chosen_capabilities
from quarterdeck.cluster.agent.oci.identity import Identity, find_identity
from quarterdeck.cluster.agent.oci.seccomp import default_profile
from quarterdeck.cluster.agent.oci.spec import Place, make_spec
from quarterdeck.cluster.agent.shim.order import Bind
from quarterdeck.cluster.image.document import ImageConfig, decode

from .podkit import pod

PASSWD = "root:x:0:0:root:/root:/bin/sh\nweb:x:100:101:Web:/srv:/bin/sh\nbroken line\n"
GROUP = "root:x:0:\nweb:x:101:\nstaff:x:50:root,web\n"
IMAGE = decode(
    b'{"config": {"User": "web", "Env": ["A=image", "B=image"], "Entrypoint": ["/run"], "Cmd": ["all"],'
    b' "WorkingDir": "/srv"}}',
    ImageConfig,
    "image",
)
PLACE = Place(
    hostname="box",
    namespaces={"network": "/proc/7/ns/net", "ipc": "/proc/7/ns/ipc"},
    passwd=PASSWD,
    group=GROUP,
)


def spec(*, image: ImageConfig = IMAGE, place: Place = PLACE, **fields: Any) -> dict[str, Any]:
    """The document for a pod with one container; ``container`` has its fields, the rest are the pod's."""
    container = fields.pop("container", {})
    made = pod("main", **fields, containers=[{"name": "main", "image": "i", **container}])
    bind = Bind(source="/pods/hosts", target="/etc/hosts", read_only=True)
    return make_spec(
        made, made.spec.containers[0], image=image, binds=[bind], environment={"B": "pod"}, place=place
    )


def test_the_image_says_what_the_pod_does_not() -> None:
    made = spec()
    process = made["process"]
    assert process["args"] == ["/run", "all"]
    assert process["cwd"] == "/srv"
    assert process["user"] == {"uid": 100, "gid": 101, "additionalGids": [50]}
    assert {"A=image", "B=pod", "HOME=/srv", "HOSTNAME=box"} <= set(process["env"])
    assert made["hostname"] == "box"
    assert {"type": "network", "path": "/proc/7/ns/net"} in made["linux"]["namespaces"]
    assert made["mounts"][-1] == {
        "destination": "/etc/hosts",
        "type": "bind",
        "source": "/pods/hosts",
        "options": ["rbind", "rprivate", "ro"],
    }
    assert "/proc/kcore" in made["linux"]["maskedPaths"]


@pytest.mark.parametrize(
    ("container", "args"),
    [
        ({"args": ["one"]}, ["/run", "one"]),
        ({"command": ["/other"]}, ["/other"]),
        ({"command": ["/other"], "args": ["$(B)"]}, ["/other", "pod"]),
    ],
)
def test_command_and_arguments_replace_the_images(container: dict[str, Any], args: list[str]) -> None:
    assert spec(container=container)["process"]["args"] == args


def test_an_image_without_a_command_needs_one() -> None:
    with pytest.raises(ContainerConfigError, match="no command specified"):
        spec(image=ImageConfig())


@pytest.mark.parametrize(
    ("user", "wishes", "found"),
    [
        ("", {}, Identity(0, 0, (50,), "/root", "root")),
        ("web", {}, Identity(100, 101, (50,), "/srv", "web")),
        ("web:staff", {}, Identity(100, 50, (50,), "/srv", "web")),
        ("7:8", {}, Identity(7, 8, (), "/", "")),
        ("web", {"run_as_user": 9}, Identity(9, 0, (), "/", "")),
        ("", {"run_as_user": 100, "supplemental": [4]}, Identity(100, 101, (50, 4), "/srv", "web")),
        ("web", {"is_strict": True, "supplemental": [4]}, Identity(100, 101, (4,), "/srv", "web")),
        ("web", {"run_as_group": 3}, Identity(100, 3, (50,), "/srv", "web")),
    ],
)
def test_users_by_name_and_number(user: str, wishes: dict[str, Any], found: Identity) -> None:
    assert find_identity(user, PASSWD, GROUP, **wishes) == found


@pytest.mark.parametrize(("user", "what"), [("nobody", "user nobody"), ("web:nobody", "group nobody")])
def test_names_that_the_image_does_not_have_are_named(user: str, what: str) -> None:
    with pytest.raises(ContainerConfigError, match=f"unable to find {what}"):
        find_identity(user, PASSWD, GROUP)


@pytest.mark.parametrize(
    ("user", "context", "words"),
    [
        ("", {"runAsNonRoot": True}, "image will run as root"),
        ("web", {"runAsNonRoot": True}, r"non-numeric user \(web\)"),
        ("7", {"runAsNonRoot": True, "runAsUser": 0}, "breaks non-root policy"),
        ("7", {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}, "seccompProfile"),
    ],
)
def test_what_cannot_be_is_refused_in_words(user: str, context: dict[str, Any], words: str) -> None:
    image = decode(f'{{"config": {{"User": "{user}", "Cmd": ["x"]}}}}'.encode(), ImageConfig, "image")
    with pytest.raises(ContainerConfigError, match=words):
        spec(image=image, container={"securityContext": context})


def test_capabilities_are_added_and_dropped() -> None:
    assert chosen_capabilities([], []) == DEFAULT
    assert chosen_capabilities(["NET_ADMIN"], ["ALL"]) == {"CAP_NET_ADMIN"}
    assert chosen_capabilities(["ALL"], ["KILL"]) == ALL - {"CAP_KILL"}
    assert chosen_capabilities([], ["net_raw"]) == DEFAULT - {"CAP_NET_RAW"}
    assert chosen_capabilities([], [], privileged=True) == ALL
    assert chosen_capabilities(["SYS_ADMIN"], [], available=DEFAULT) == DEFAULT
    assert "CAP_MKNOD" not in DEFAULT


def test_who_is_not_root_has_capabilities_only_to_gain() -> None:
    sets = spec()["process"]["capabilities"]
    assert sets["bounding"] == sorted(DEFAULT)
    assert sets["effective"] == sets["permitted"] == sets["ambient"] == []
    root = spec(container={"securityContext": {"runAsUser": 0}})["process"]["capabilities"]
    assert root["effective"] == sorted(DEFAULT)


def test_seccomp_refuses_what_no_capability_allows() -> None:
    def refused(capabilities: frozenset[str]) -> set[str]:
        rules = default_profile(capabilities, "x86_64")["syscalls"]
        return {name for rule in rules if "args" not in rule for name in rule["names"]}

    usual = refused(DEFAULT)
    assert {"mount", "unshare", "kexec_load", "bpf", "keyctl", "clone3"} <= usual
    assert not {"open", "execve", "clone", "chroot", "ptrace"} & usual
    assert not {"mount", "unshare", "clone3"} & refused(DEFAULT | {"CAP_SYS_ADMIN"})


def test_seccomp_is_there_unless_it_is_unwanted() -> None:
    assert "seccomp" in spec()["linux"]
    unwanted: dict[str, Any] = {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}
    assert "seccomp" not in spec(container=unwanted)["linux"]
    assert "seccomp" not in spec(**unwanted)["linux"]


def test_a_privileged_container_sees_the_machine() -> None:
    made = spec(container={"securityContext": {"privileged": True}})
    assert "seccomp" not in made["linux"]
    assert made["linux"]["maskedPaths"] == []
    assert {
        "destination": "/dev",
        "type": "bind",
        "source": "/dev",
        "options": ["rbind", "rprivate"],
    } in made["mounts"]


def test_namespaces_of_the_machine_are_kept_when_asked_for() -> None:
    kinds = {each["type"] for each in spec(hostPID=True, hostNetwork=True)["linux"]["namespaces"]}
    assert kinds == {"mount", "network", "ipc"}
    assert "hostname" not in spec(hostNetwork=True)


def test_security_options_of_the_pod_and_the_container() -> None:
    made = spec(
        securityContext={
            "sysctls": [{"name": "kernel/shm_rmid_forced", "value": "1"}],
            "fsGroup": 9,
            "supplementalGroups": [8],
        },
        container={"securityContext": {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}},
        place=Place(hostname="box", passwd=PASSWD, group=GROUP, open_files=1024),
    )
    assert made["root"]["readonly"] is True
    assert made["process"]["noNewPrivileges"] is True
    assert made["process"]["user"]["additionalGids"] == [50, 8, 9]
    assert made["linux"]["sysctl"]["kernel.shm_rmid_forced"] == "1"
    assert made["process"]["rlimits"][0] == {"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 1024}


def test_a_container_sees_its_own_control_groups_and_no_others() -> None:
    groups = {"/sys/fs/cgroup/cpu": "/groups/cpu/one", "/sys/fs/cgroup/memory": "/groups/memory/one"}
    made = spec(place=Place(passwd=PASSWD, groups=groups, oom_score=-997))
    mounts = {each["destination"]: each for each in made["mounts"]}
    assert mounts["/sys/fs/cgroup"]["type"] == "tmpfs"
    assert {name: mounts[name]["source"] for name in groups} == groups
    assert all("ro" in mounts[name]["options"] for name in ("/sys/fs/cgroup", *groups))
    assert {"type": "cgroup"} in made["linux"]["namespaces"]
    assert made["process"]["oomScoreAdj"] == -997
    one = spec(place=Place(passwd=PASSWD, groups={"/sys/fs/cgroup": "/groups/one"}))
    assert [each["type"] for each in one["mounts"] if each["destination"] == "/sys/fs/cgroup"] == ["bind"]
