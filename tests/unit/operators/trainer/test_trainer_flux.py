"""Flux: what its pods get, the scripts, the key."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import x25519

from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.keys import curve_secret, z85
from quarterdeck.operators.trainer.logic.plugin import Present

from .trainerkit import (
    container_of,
    job_of,
    pod_of,
    render,
    rendered_jobset,
    rendering,
    runtime,
    train_job,
    trainer,
    violations,
)

Json = dict[str, Any]
FLUX: Json = {"numNodes": 2, "flux": {"numProcPerNode": 1}}


def scripts(job: Any, made_of: Any, present: Present | None = None) -> dict[str, str]:
    data: dict[str, str] = render(job, made_of, present)["ConfigMap"]["data"]
    return data


def test_pods_bring_flux_along() -> None:
    job = train_job(trainer={"numNodes": 3, "command": ["train"], "args": ["--fast", "a b"]})
    jobset = render(job, runtime(trainer(args=["old"]), policy=FLUX))["JobSet"]
    assert job_of(jobset)["template"]["spec"]["parallelism"] == 3
    (installer,) = pod_of(jobset)["initContainers"]
    assert (installer["name"], installer["image"]) == ("flux-installer", names.FLUX_INSTALLER_IMAGE)
    assert installer["command"] == ["/bin/bash", "/etc/flux-config/init.sh"]
    assert [each["mountPath"] for each in installer["volumeMounts"]] == ["/mnt/flux", "/etc/flux-config"]
    node = container_of(jobset)
    assert node["command"] == ["/bin/bash", "/etc/flux-config/entrypoint.sh", "train --fast 'a b'"]
    assert "args" not in node
    assert {each["name"]: each["mountPath"] for each in node["volumeMounts"]} == {
        "flux-install": "/mnt/flux",
        "spack-install": "/opt/software",
        "job-flux-entrypoint": "/etc/flux-config",
        "flux-curve": "/curve",
        "shared-memory": "/dev/shm",
    }
    assert {each["name"] for each in pod_of(jobset)["volumes"]} == {
        each["name"] for each in node["volumeMounts"]
    }


def test_what_the_job_does_not_say_the_runtime_does() -> None:
    made_of = runtime(trainer(command=["python", "-c", "print(1)"], args=["x"]), policy=FLUX)
    assert container_of(render(train_job(), made_of)["JobSet"])["command"][-1] == "python -c 'print(1)' x"


def test_scripts_know_hosts_processes_and_devices() -> None:
    resources = {"limits": {"nvidia.com/gpu": "4"}}
    job = train_job(trainer={"numNodes": 4, "numProcPerNode": 2})
    data = scripts(job, runtime(trainer(resources=resources), policy=FLUX, network={"subdomain": "net"}))
    assert "--cores=0-1 --gpu=0-3 >" in data["entrypoint.sh"]
    assert "flux run -N 4 -n 8 -g 2 " in data["entrypoint.sh"]
    assert "= 'job-node-0-0' ]" in data["entrypoint.sh"]
    assert 'hosts = [{ host = "job-node-0-[0-3]" }]' in data["init.sh"]
    assert 'default_connect = "tcp://%h.net.default.svc.cluster.local:%p"' in data["init.sh"]
    assert 'default_bind = "tcp://eth0:%p"' in data["init.sh"]
    assert "@" not in data["init.sh"].replace("$@", "")


def test_variables_change_the_settings_and_the_job_speaks_last() -> None:
    env = [{"name": "FLUX_NETWORK_DEVICE", "value": "ib0"}, {"name": "FLUX_VIEW_IMAGE", "value": "theirs"}]
    job = train_job(trainer={"env": [{"name": "FLUX_VIEW_IMAGE", "value": "mine"}]})
    made = render(job, runtime(trainer(env=env), policy=FLUX))
    assert pod_of(made["JobSet"])["initContainers"][0]["image"] == "mine"
    assert "tcp://ib0:%p" in made["ConfigMap"]["data"]["init.sh"]


@pytest.mark.parametrize("name", ["init.sh", "entrypoint.sh"])
def test_bash_can_read_the_scripts(name: str) -> None:
    text = scripts(train_job(), runtime(policy=FLUX))[name]
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_the_words_of_the_command_survive_the_shell() -> None:
    words = ["python", "-c", "print('a', \"b\")\n", "$HOME", "*"]
    jobset = render(train_job(trainer={"command": words}), runtime(policy=FLUX))["JobSet"]
    line = container_of(jobset)["command"][-1]
    shown = subprocess.run(
        ["bash", "-c", 'eval "set -- $1"; printf "%s\\0" "$@"', "-", line],
        capture_output=True,
        check=True,
    )
    assert shown.stdout.decode().split("\0")[:-1] == words


def test_the_key_is_random_made_once_and_a_pair() -> None:
    secret = curve_secret(train_job())
    assert (secret.metadata.name, secret.immutable) == ("job-flux-curve", True)
    assert secret.data != curve_secret(train_job()).data
    text = secret.data["curve.cert"].decode()
    lines = dict(line.strip().split(" = ") for line in text.splitlines() if " = " in line)
    public, private = lines["public-key"].strip('"'), lines["secret-key"].strip('"')
    assert (len(public), len(private)) == (40, 40)
    key = x25519.X25519PrivateKey.from_private_bytes(_z85_bytes(private))
    assert z85(key.public_key().public_bytes_raw()) == public
    assert "Secret" not in render(train_job(), runtime(policy=FLUX), Present(secret=secret))


def _z85_bytes(text: str) -> bytes:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    made = b""
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            number = number * 85 + digits.index(character)
        made += number.to_bytes(4, "big")
    return made


def test_scripts_of_a_running_job_follow_what_runs() -> None:
    made_of = runtime(policy=FLUX)
    first = rendering(train_job(trainer={"numNodes": 3, "numProcPerNode": 2}), made_of)
    jobset = rendered_jobset(train_job(trainer={"numNodes": 3, "numProcPerNode": 2}), made_of)
    present = Present(jobset=jobset, secret=curve_secret(train_job()), record=first.record)
    assert (
        "flux run -N 3 -n 6 "
        in scripts(train_job(trainer={"numNodes": 9}), made_of, present)["entrypoint.sh"]
    )


def test_what_jobs_may_not_say() -> None:
    taken = runtime(trainer(pod={"initContainers": [{"name": "flux-installer", "image": "x"}]}), policy=FLUX)
    (problem,) = violations(train_job(), taken)
    assert problem.startswith('spec.trainer.initContainers: Invalid value: "flux-installer": ')
    assert problem.endswith("InitContainer 'flux-installer' is reserved")
    (problem,) = violations(train_job(trainer={"numProcPerNode": "auto"}), runtime(policy=FLUX))
    assert problem.endswith("must have an int value for Flux TrainJob")
