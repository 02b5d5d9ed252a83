"""Pods that train learn where to report how far they are."""

from __future__ import annotations

import pytest

from quarterdeck.api import to_dict
from quarterdeck.errors import ReconcileError
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.plugin import Present
from quarterdeck.operators.trainer.logic.plugins.progress import Progress, StatusServer
from quarterdeck.operators.trainer.logic.template import pod_spec

from .trainerkit import info_of, initializer, runtime, train_job, trainer

SERVER = StatusServer(url="https://server", ca_bundle="PEM")


def progress(server: StatusServer = SERVER) -> Progress:
    return Progress(lambda: server)


def test_every_container_of_the_trainer_gets_an_address_and_a_token_of_this_job_only() -> None:
    job = train_job()
    info = info_of(job, runtime(initializer(), trainer()))
    progress().enforce_pods(info, job)
    pods = info.ancestor(names.TRAINER)
    assert pods is not None
    spec = pod_spec(pods.job)
    [container] = spec["containers"]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    assert env[names.SERVER_URL] == "https://server" + names.status_path("default", "job")
    assert env[names.SERVER_CA_CERT] == f"{names.SERVER_MOUNT}/ca.crt"
    assert env[names.SERVER_TOKEN] == f"{names.SERVER_MOUNT}/token"
    assert container["volumeMounts"] == [
        {"name": names.TOKEN_VOLUME, "mountPath": names.SERVER_MOUNT, "readOnly": True}
    ]
    assert spec["volumes"] == [
        {
            "name": names.TOKEN_VOLUME,
            "projected": {
                "sources": [
                    {
                        "serviceAccountToken": {
                            "audience": names.status_audience("default", "job"),
                            "expirationSeconds": 3600,
                            "path": "token",
                        }
                    },
                    {
                        "configMap": {
                            "name": names.tls_config_name("job"),
                            "items": [{"key": "ca.crt", "path": "ca.crt"}],
                        }
                    },
                ]
            },
        }
    ]
    others = info.ancestor(names.DATASET_INITIALIZER)
    assert others is not None
    assert "volumes" not in pod_spec(others.job)


def test_without_a_trainer_nothing_is_told() -> None:
    job = train_job()
    info = info_of(job, runtime(initializer()))
    progress().enforce_pods(info, job)
    assert info.ancestor(names.TRAINER) is None


def test_the_authorities_of_the_server_are_given_once_it_has_some() -> None:
    job = train_job()
    info = info_of(job, runtime())
    [component] = progress().build(info, job, Present())
    made = to_dict(component.obj)
    assert made["metadata"]["name"] == names.tls_config_name("job")
    assert made["data"] == {"ca.crt": "PEM"}
    with pytest.raises(ReconcileError, match="no certificate yet"):
        progress(StatusServer(url="https://server", ca_bundle="")).build(info, job, Present())
