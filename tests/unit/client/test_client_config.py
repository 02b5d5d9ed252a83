"""Kubeconfig, in-cluster settings and credentials."""

import base64
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterdeck.client import Config, HttpTransport, Impersonation, TlsOptions
from quarterdeck.client.config import ExecOptions, user_agent
from quarterdeck.client.credential import Anonymous, BasicAuth, ExecPlugin, FileToken, StaticToken
from quarterdeck.errors import ConfigError

from .wireserver import FakeClock


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(path: Path, **changes: Any) -> Path:
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c1",
        "contexts": [
            {"name": "c1", "context": {"cluster": "k1", "user": "u1", "namespace": "team"}},
            {"name": "c2", "context": {"cluster": "k2", "user": "u2"}},
        ],
        "clusters": [
            {
                "name": "k1",
                "cluster": {"server": "https://one:6443", "certificate-authority-data": b64("CA")},
            },
            {"name": "k2", "cluster": {"server": "https://two", "certificate-authority": "ca.crt"}},
        ],
        "users": [
            {
                "name": "u1",
                "user": {"client-certificate-data": b64("CERT"), "client-key-data": b64("KEY")},
            },
            {"name": "u2", "user": {"tokenFile": "token"}},
        ],
    }
    document.update(changes)
    path.write_text(yaml.safe_dump(document))
    return path


def user(path: Path, **fields: Any) -> Config:
    return Config.load(kubeconfig(path / "config", users=[{"name": "u1", "user": fields}]), env={})


def cluster(path: Path, **fields: Any) -> Config:
    entry = {"name": "k1", "cluster": {"server": "https://one:6443", **fields}}
    return Config.load(kubeconfig(path / "config", clusters=[entry]), env={})


def test_current_context_is_resolved(tmp_path: Path) -> None:
    config = Config.load(kubeconfig(tmp_path / "config"), env={})
    assert (config.server, config.namespace) == ("https://one:6443", "team")
    assert config.tls == TlsOptions(ca_data="CA", cert_data="CERT", key_data="KEY")


def test_context_can_be_chosen_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = Config.load(kubeconfig(tmp_path / "config"), context="c2", env={})
    assert config.tls.ca_file == str(tmp_path / "ca.crt")
    assert config.token_file == str(tmp_path / "token")
    assert config.namespace == "default"


def test_precedence_of_sources(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    explicit = kubeconfig(tmp_path / "explicit", **{"current-context": "c2"})
    kubeconfig(home / ".kube" / "config")
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("t")
    (account / "ca.crt").write_text("CA")
    (account / "namespace").write_text("pods-ns\n")
    cluster_env = {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "HOME": str(home),
    }

    def load(env: dict[str, str], path: str = "") -> str:
        return Config.load(path, env=env, service_account=str(account)).server

    assert load({**cluster_env, "KUBECONFIG": "/nowhere"}, str(explicit)) == "https://two"
    assert load({**cluster_env, "KUBECONFIG": str(explicit)}) == "https://two"
    assert load(cluster_env) == "https://10.0.0.1:443"
    assert load({"HOME": str(home)}) == "https://one:6443"
    with pytest.raises(ConfigError, match="no kubeconfig file found at /nowhere"):
        load({**cluster_env, "KUBECONFIG": "/nowhere"})


def test_a_pod_without_service_account_falls_back_to_the_home_directory(tmp_path: Path) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    with pytest.raises(ConfigError, match="no service account token"):
        Config.load(env=env, service_account=str(tmp_path))
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube" / "config")
    assert Config.load(env=env, service_account=str(tmp_path)).server == "https://one:6443"


async def test_a_plugin_that_asks_is_told_about_the_cluster(tmp_path: Path) -> None:
    command = plugin(
        tmp_path,
        """cluster = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["spec"]["cluster"]
print(json.dumps({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
                  "status": {"token": json.dumps(cluster)}}))""",
    )
    authority = tmp_path / "ca.crt"
    authority.write_text("CA")
    told = {"server": "https://x", "tls-server-name": "y", "certificate-authority-data": "Q0E="}
    for tls in (
        TlsOptions(ca_data="CA", server_name="y"),
        TlsOptions(ca_file=str(authority), server_name="y"),
    ):
        options = ExecOptions(command=command, provide_cluster_info=True)
        credential = Config(server="https://x", tls=tls, exec=options).credential()
        assert await credential.headers() == (("authorization", f"Bearer {json.dumps(told)}"),)


def test_in_cluster_uses_the_service_account(tmp_path: Path) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    with pytest.raises(ConfigError, match="no service account token"):
        Config.in_cluster(env=env, service_account=str(tmp_path))
    with pytest.raises(ConfigError, match="not in a cluster"):
        Config.in_cluster(env={}, service_account=str(tmp_path))
    (tmp_path / "token").write_text("t")
    config = Config.in_cluster(env=env, service_account=str(tmp_path))
    assert config.server == "https://[fd00::1]:6443"
    assert config.token_file == str(tmp_path / "token")
    assert config.namespace == "default"


def test_files_of_the_variable_merge(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_text(
        yaml.safe_dump({"current-context": "", "users": [{"name": "u1", "user": {"token": "mine"}}]})
    )
    second = kubeconfig(tmp_path / "second")
    env = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "missing"), str(first), str(second)])}
    config = Config.load(env=env)
    assert (config.server, config.token) == ("https://one:6443", "mine")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"current-context": ""}, "no current-context"),
        ({"current-context": "nope"}, 'context "nope" does not exist'),
        ({"clusters": []}, 'cluster "k1" of context "c1" does not exist'),
        ({"users": []}, 'user "u1" of context "c1" does not exist'),
        ({"clusters": [{"name": "k1", "cluster": {}}]}, "has no server"),
        (
            {"clusters": [{"name": "k1", "cluster": {"server": "x", "certificate-authority-data": "%"}}]},
            "is not base64",
        ),
        ({"users": [{"name": "u1", "user": {"auth-provider": {"name": "gcp"}}}]}, "use an exec plugin"),
        ({"users": [{"name": "u1", "user": {"exec": {"args": []}}}]}, "has no command"),
    ],
)
def test_broken_files_say_what_is_wrong(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Config.load(kubeconfig(tmp_path / "config", **changes), env={})


@pytest.mark.parametrize("text", ["a: [", "- list"])
def test_files_that_are_no_kubeconfig_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError):
        Config.load(path, env={})


def test_cluster_options(tmp_path: Path) -> None:
    config = cluster(
        tmp_path,
        **{
            "insecure-skip-tls-verify": True,
            "tls-server-name": "api.test",
            "proxy-url": "http://proxy:3128",
        },
    )
    assert (config.tls.insecure, config.tls.server_name, config.proxy) == (
        True,
        "api.test",
        "http://proxy:3128",
    )
    assert isinstance(config.transport(), HttpTransport)


@pytest.mark.parametrize(
    ("env", "proxy"),
    [
        ({"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "http://p:1", "NO_PROXY": "example.com"}, "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other, one"}, ""),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, ""),
        ({}, ""),
    ],
)
def test_proxy_of_the_environment(tmp_path: Path, env: dict[str, str], proxy: str) -> None:
    assert Config.load(kubeconfig(tmp_path / "config"), env=env).proxy == proxy


def test_user_options(tmp_path: Path) -> None:
    config = user(
        tmp_path,
        **{"as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": {"scopes/x": ["view"]}},
    )
    assert config.headers()[1:] == (
        ("impersonate-user", "jane"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "dev"),
        ("impersonate-group", "ops"),
        ("impersonate-extra-scopes%2Fx", "view"),
    )
    with pytest.raises(ConfigError, match="needs a user"):
        Impersonation(groups=("dev",)).headers()


def test_credential_is_chosen_by_what_is_there(tmp_path: Path) -> None:
    assert isinstance(user(tmp_path, token="t", tokenFile="f").credential(), FileToken)
    assert isinstance(user(tmp_path, token="t").credential(), StaticToken)
    assert isinstance(user(tmp_path, username="u", password="p").credential(), BasicAuth)
    assert isinstance(user(tmp_path).credential(), Anonymous)
    plugin = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}
    assert isinstance(user(tmp_path, exec=plugin).credential(), ExecPlugin)


def test_user_agent_names_program_and_platform() -> None:
    text = user_agent("leader-election")
    assert "quarterdeck/" in text
    assert text.endswith(" leader-election")
    assert "(linux/" in text or "(darwin/" in text


def test_evolve_copies() -> None:
    config = Config(server="https://x")
    assert config.evolve(timeout=5.0).timeout == 5.0
    assert config.timeout == 60.0


async def test_basic_and_static_credentials() -> None:
    assert await BasicAuth("u", "p").headers() == (("authorization", "Basic dTpw"),)
    assert await StaticToken("t").headers() == (("authorization", "Bearer t"),)
    assert await Anonymous().headers() == ()
    assert not await StaticToken("t").refresh()


async def test_token_file_is_read_again_after_a_minute_and_after_401(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", FakeClock()
    path.write_text("one\n")
    token = FileToken(str(path), clock=clock)
    assert await token.headers() == (("authorization", "Bearer one"),)
    path.write_text("two")
    assert await token.headers() == (("authorization", "Bearer one"),)
    clock.now += 60
    assert await token.headers() == (("authorization", "Bearer two"),)
    assert not await token.refresh()
    path.write_text("three")
    assert await token.refresh()
    assert await token.headers() == (("authorization", "Bearer three"),)
    path.unlink()
    clock.now += 60
    assert await token.headers() == (("authorization", "Bearer three"),)


async def test_missing_or_empty_token_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the token file"):
        await FileToken(str(tmp_path / "none")).headers()
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        await FileToken(str(tmp_path / "empty")).headers()


def plugin(path: Path, body: str) -> str:
    script = path / "plugin"
    script.write_text(f"#!{sys.executable}\nimport json, os, sys\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


ANSWER = """
count = {folder!r} + "/count"
n = int(open(count).read()) + 1 if os.path.exists(count) else 1
open(count, "w").write(str(n))
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
server = info["spec"].get("cluster", {{}}).get("server", "")
status = {{"token": "-".join([f"t{{n}}", os.environ.get("EXTRA", ""), server])}}
if {expiry!r}:
    status["expirationTimestamp"] = {expiry!r}
print(json.dumps({{"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}}))
"""


def fresh(path: Path) -> Path:
    """A folder of its own for each of the two loops a test runs on."""
    folder = path / str(len(list(path.iterdir())))
    folder.mkdir()
    return folder


async def test_plugin_gets_its_environment_and_is_run_once(tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    command = plugin(folder, ANSWER.format(folder=str(folder), expiry=""))
    credential = ExecPlugin(command, env={"EXTRA": "e"}, cluster={"server": "https://x"})
    assert await credential.headers() == (("authorization", "Bearer t1-e-https://x"),)
    assert await credential.headers() == (("authorization", "Bearer t1-e-https://x"),)
    assert await credential.refresh()
    assert await credential.headers() == (("authorization", "Bearer t2-e-https://x"),)
    assert await credential.tls(TlsOptions()) == TlsOptions()


async def test_plugin_runs_again_before_its_credential_expires(tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    clock = FakeClock()
    command = plugin(folder, ANSWER.format(folder=str(folder), expiry="1970-01-12T14:00:00Z"))
    credential = ExecPlugin(command, clock=clock, api_version="client.authentication.k8s.io/v1beta1")
    assert (await credential.headers())[0][1] == "Bearer t1--"
    clock.now = 1_000_785.0  # the credential ends at 1000800
    assert (await credential.headers())[0][1] == "Bearer t1--"
    clock.now = 1_000_791.0
    assert (await credential.headers())[0][1] == "Bearer t2--"


async def test_plugin_may_give_a_client_certificate(tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"clientCertificateData": "C", "clientKeyData": "K"},
    }
    credential = ExecPlugin(plugin(tmp_path, f"print({json.dumps(answer)!r})"))
    assert await credential.headers() == ()
    assert await credential.tls(TlsOptions(cert_file="old")) == TlsOptions(cert_data="C", key_data="K")


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("sys.exit('no luck')", "failed with code 1: no luck"),
        ("print('hello')", "did not print an ExecCredential"),
        ("print('{}')", "configured is client.authentication.k8s.io/v1"),
        (
            'print(\'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}}\')',
            "neither a token nor a certificate",
        ),
        (
            (
                'print(\'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
                '"status":{"clientKeyData":"x","token":"t"}}\')'
            ),
            "half a certificate",
        ),
        (
            (
                'print(\'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
                '"status":{"token":"x","expirationTimestamp":"soon"}}\')'
            ),
            "bad expirationTimestamp",
        ),
    ],
)
async def test_plugins_that_misbehave_are_named(tmp_path: Path, body: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        await ExecPlugin(plugin(tmp_path, body)).headers()


async def test_missing_plugin_shows_the_install_hint() -> None:
    with pytest.raises(ConfigError, match="install it from there"):
        await ExecPlugin("/no/such/plugin", install_hint="install it from there").headers()
    with pytest.raises(ConfigError, match="invalid apiVersion"):
        ExecPlugin("x", api_version="v1alpha1")
