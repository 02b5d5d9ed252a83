"""`quarterdeck apiserver` as a user starts and stops it."""

import json
import signal
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

COMMAND = [sys.executable, "-m", "quarterdeck.cli", "apiserver"]


class Running:
    """A server process; the context manager stops it and checks how it ended."""

    def __init__(self, *arguments: str, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._arguments = [*COMMAND, "--port", "0", "--kubeconfig", str(kubeconfig), *arguments]

    def __enter__(self) -> "Running":
        self.process = subprocess.Popen(
            self._arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.line = self.process.stdout.readline()
        assert self.line.startswith("ready: https://127.0.0.1:"), self.process.stderr.read()
        self.hint = self.process.stdout.readline()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(self.kubeconfig.read_text())
        return found

    def get(self, path: str, token: str = "") -> tuple[int, str]:
        cluster = self.document()["clusters"][0]["cluster"]
        import base64

        context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        request = urllib.request.Request(cluster["server"] + path)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


def test_it_prints_two_lines_when_ready_and_ends_with_zero_on_sigterm(tmp_path: Path) -> None:
    with Running(kubeconfig=tmp_path / "kubeconfig") as server:
        assert server.line.strip().endswith(str(tmp_path / "kubeconfig"))
        assert server.hint.startswith("try: kubectl --context ")
        server.process.send_signal(signal.SIGTERM)
        output, _ = server.process.communicate(timeout=60)
        assert server.process.returncode == 0
        assert output == ""


def test_the_kubeconfig_is_for_its_owner_only(tmp_path: Path) -> None:
    with Running(kubeconfig=tmp_path / "kubeconfig") as server:
        assert stat.S_IMODE(server.kubeconfig.stat().st_mode) == 0o600
        assert server.document()["current-context"]


def test_health_is_open_and_everything_else_needs_credentials(tmp_path: Path) -> None:
    with Running(kubeconfig=tmp_path / "kubeconfig") as server:
        assert server.get("/readyz") == (200, "ok")
        code, body = server.get("/api/v1/namespaces")
        assert code == 401
        assert json.loads(body)["message"] == "Unauthorized"


def test_static_tokens_are_users_with_groups(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('s3cret,alice,1,"system:masters"\nother,bob,2,"devs"\n')
    with Running("--token-file", str(tokens), kubeconfig=tmp_path / "kubeconfig") as server:
        assert server.get("/api/v1/namespaces", token="s3cret")[0] == 200
        code, body = server.get("/api/v1/namespaces", token="other")
        assert code == 403
        assert 'User "bob" cannot list resource "namespaces"' in json.loads(body)["message"]
        assert server.get("/api/v1/namespaces", token="wrong")[0] == 401


def test_a_second_server_on_the_same_directory_gets_a_clear_error(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Running("--data-dir", str(data), kubeconfig=tmp_path / "kubeconfig"):
        second = subprocess.run(
            [*COMMAND, "--port", "0", "--data-dir", str(data)], capture_output=True, text=True, timeout=60
        )
        assert second.returncode == 1
        assert "in use by another server" in second.stderr
        assert "Traceback" not in second.stderr


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "state.db").write_bytes(b"this is not a database, and nobody should overwrite it" * 50)
    before = (data / "state.db").read_bytes()
    failed = subprocess.run(
        [*COMMAND, "--port", "0", "--data-dir", str(data)], capture_output=True, text=True, timeout=60
    )
    assert failed.returncode == 1
    assert "state.db" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert (data / "state.db").read_bytes() == before


def test_certificates_and_objects_survive_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('s3cret,alice,1,"system:masters"\n')
    arguments = ["--data-dir", str(data), "--token-file", str(tokens)]
    with Running(*arguments, kubeconfig=tmp_path / "one") as server:
        first = server.document()
        before = json.loads(server.get("/api/v1/namespaces/default", token="s3cret")[1])
    with Running(*arguments, kubeconfig=tmp_path / "two") as server:
        second = server.document()
        after = json.loads(server.get("/api/v1/namespaces/default", token="s3cret")[1])
    authority = "certificate-authority-data"
    assert first["clusters"][0]["cluster"][authority] == second["clusters"][0]["cluster"][authority]
    assert after["metadata"] == before["metadata"]


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with Running(kubeconfig=tmp_path / "kubeconfig") as server:
        port = server.document()["clusters"][0]["cluster"]["server"].rpartition(":")[2]
        failed = subprocess.run([*COMMAND, "--port", port], capture_output=True, text=True, timeout=60)
        assert failed.returncode == 1
        assert port in failed.stderr
        assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("durability", ["full", "normal", "memory"])
def test_every_durability_serves(tmp_path: Path, durability: str) -> None:
    arguments = ["--durability", durability, "--data-dir", str(tmp_path / "data")]
    with Running(*arguments, kubeconfig=tmp_path / "kubeconfig") as server:
        assert server.get("/livez") == (200, "ok")
    assert (tmp_path / "data" / "state.db").exists() == (durability != "memory")
