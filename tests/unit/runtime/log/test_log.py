"""Log lines: fields, formats, repetition, and no secrets in any of them."""

from __future__ import annotations

import io
import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s import Secret
from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.client import Client, Config
from quarterdeck.errors import NotFound, Unauthorized
from quarterdeck.runtime.certificate import FileCertificates, SelfSigned
from quarterdeck.runtime.health import AccessReviewer, MetricsServer
from quarterdeck.runtime.log import (
    JsonFormatter,
    LogControl,
    RepeatFilter,
    bound_fields,
    configure,
    current_fields,
    get_logger,
    redact,
)
from quarterdeck.runtime.log.field import LazyFields
from quarterdeck.runtime.log.repeat import RepeatGuard
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.webhook import WebhookOptions, WebhookServer
from quarterdeck.wire.http import Response
from tests.unit.runtime.servicekit import Authority, Gang, Web, until

pytestmark = pytest.mark.real_time

_numbers = itertools.count()


class Output:
    """A configured log, read back."""

    def __init__(self, **options: Any) -> None:
        self.stream = io.StringIO()
        self.root = logging.getLogger(
            f"quarterdeck-test-{next(_numbers)}"
        )  # found by its manager, unlike Logger()
        self.root.propagate = False
        self.control: LogControl = configure(stream=self.stream, root=self.root, **options)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture
def output() -> Iterator[Output]:
    made = Output(format="json")
    yield made
    made.control.close()


def logger_on(output: Output, name: str = "quarterdeck.test") -> Any:
    from quarterdeck.runtime.log.field import FieldLogger

    child = logging.Logger(name)
    child.parent = output.root
    return FieldLogger(child)


def test_json_lines_carry_event_fields_and_the_fields_of_the_task(output: Output) -> None:
    log = logger_on(output).bind(controller="gang")
    with bound_fields(reconcileID="r-1", Gang={"name": "a", "namespace": "b"}):
        log.info("Starting workers", **{"worker count": 4})
    [line] = output.records
    assert line["level"] == "info"
    assert line["msg"] == "Starting workers"
    assert line["logger"] == "quarterdeck.test"
    assert line["ts"].endswith("Z")
    assert (line["controller"], line["reconcileID"], line["worker count"]) == ("gang", "r-1", 4)
    assert line["Gang"] == {"name": "a", "namespace": "b"}


def test_a_library_logging_inside_a_task_inherits_its_fields(output: Output) -> None:
    library = logging.Logger("some.library")
    library.parent = output.root
    with bound_fields(reconcileID="r-2"):
        library.warning("retrying %s", "x", extra={"attempt": 3})
    [line] = output.records
    assert (line["msg"], line["reconcileID"], line["attempt"]) == ("retrying x", "r-2", 3)


def test_fields_that_nobody_logs_are_never_made(output: Output) -> None:
    made: list[str] = []

    def fields() -> dict[str, object]:
        made.append("once")
        return {"reconcileID": "r-3"}

    log = logger_on(output)
    with bound_fields(controller="gang"), LazyFields(fields):
        assert made == []
        log.info("first")
        log.info("second")
    log.info("after")
    assert made == ["once"]
    first, second, after = output.records
    assert (first["controller"], first["reconcileID"], second["reconcileID"]) == ("gang", "r-3", "r-3")
    assert "reconcileID" not in after


def test_errors_carry_their_traceback_and_odd_values_their_text(output: Output) -> None:
    log = logger_on(output)
    try:
        raise NotFound('gangs.example.io "a" not found')
    except NotFound as error:
        log.error("Reconciler error", error, key=Key("ns", "a"), kinds={"b"}, odd=object)
    [line] = output.records
    assert line["error"] == 'gangs.example.io "a" not found'
    assert "Traceback" in line["stacktrace"]
    assert (line["key"], line["kinds"]) == ("ns/a", ["b"])
    assert line["odd"] == "<class 'object'>"


def test_console_lines_are_readable_and_coloured_only_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    plain = Output(format="console")
    logger_on(plain).warning("short watch", kind="Pod")
    assert plain.lines[0].split("\t")[1:] == ["WARNING", "quarterdeck.test", "short watch", '{"kind":"Pod"}']
    root = logging.Logger("root")
    terminal = Terminal()
    configure(stream=terminal, root=root)
    child = logging.Logger("x")
    child.parent = root
    child.error("bad")
    assert "\x1b[31mERROR\x1b[0m" in terminal.getvalue()
    assert Output().control is not None


def test_the_level_can_be_changed_while_running(output: Output) -> None:
    output.root.debug("hidden")
    output.control.set_level("debug")
    output.root.debug("shown")
    output.control.set_level("ERROR")
    output.root.warning("hidden again")
    assert [line["msg"] for line in output.records] == ["shown"]


def test_the_same_error_is_written_once_then_once_a_minute_with_a_count() -> None:
    clock = [0.0]

    class Guard(RepeatGuard):
        def admit(self, text: str, now: float) -> int | None:
            return super().admit(text, clock[0])

    written: list[Any] = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(getattr(record, "fields", {}))  # type: ignore[method-assign]  # a spy
    handler.addFilter(RepeatFilter(Guard()))
    logger = logging.Logger("x")
    logger.addHandler(handler)
    from quarterdeck.runtime.log.field import FieldLogger

    log = FieldLogger(logger)
    for second in range(130):
        clock[0] = float(second)
        log.error("Reconciler error", RuntimeError("no room"), trace=False, namespace="a", name="b")
    log.error("Reconciler error", RuntimeError("no room"), trace=False, namespace="a", name="other")
    log.info("not limited")
    log.info("not limited")
    assert [fields.get("repeated", 0) for fields in written] == [0, 59, 59, 0, 0, 0]


JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abcdef123456", "Authorization: [redacted]"),
        ("authorization=Basic dXNlcjpwYXNz", "authorization=[redacted]"),
        ("got Bearer abcdef123456 back", "got Bearer [redacted] back"),
        (f"token {JWT} expired", "token [redacted] expired"),
        ('{"token":"s3cret","user":"me"}', '{"token":"[redacted]","user":"me"}'),
        ("{'password': 'hunter2 or so'}", "{'password': '[redacted]'}"),
        (r'body "{\"token\":\"s3cret\",\"a\":1}"', r'body "{\"token\":\"[redacted]\",\"a\":1}"'),
        ("password=hunter2, user=me", "password=[redacted], user=me"),
        (
            "x -----BEGIN EC PRIVATE KEY-----\nMHcCAQ\n-----END EC PRIVATE KEY----- y",
            "x [redacted] y",
        ),
        ("continue_token_count=3 tokens: many", "continue_token_count=3 tokens: many"),
        ('{"secret":"hook-tls","namespace":"a"}', '{"secret":"hook-tls","namespace":"a"}'),
    ],
)
def test_secrets_are_cut_out_of_any_text(text: str, clean: str) -> None:
    assert redact(text) == clean


def test_objects_are_logged_by_name_never_by_content(output: Output) -> None:
    secret = Secret(metadata=ObjectMeta(name="s", namespace="n"), data={"password": b"hunter2"})
    logger_on(output).info(
        "saw", obj=secret, document=secret.to_dict(), gang=Gang(metadata=ObjectMeta(name="g"))
    )
    [line] = output.records
    assert line["obj"] == line["document"] == {"name": "s", "namespace": "n"}
    assert line["gang"] == {"name": "g", "namespace": ""}


def test_tracebacks_and_headers_are_cleaned_too(output: Output) -> None:
    log = logger_on(output)
    try:
        raise ValueError(f"refused: Authorization: Bearer {JWT}")
    except ValueError as error:
        log.error("request failed", error, headers=[("authorization", f"Bearer {JWT}")], token=JWT)
    assert JWT not in output.stream.getvalue()
    assert "eyJ" not in output.stream.getvalue()


async def test_nothing_secret_is_logged_by_a_whole_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, output: Output
) -> None:
    """Clients, certificates, metrics with tokens and failures of all kinds, at debug level; then grep."""
    output.control.set_level("DEBUG")
    root = logging.getLogger()
    [handler] = [each for each in output.root.handlers if isinstance(each.formatter, JsonFormatter)]
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.DEBUG)
    try:
        hidden = await _session(tmp_path)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    text = output.stream.getvalue()
    ours = [record for record in caplog.records if record.name.startswith("quarterdeck.")]
    raw = "\n".join(str(record.__dict__) for record in ours if record.name != "quarterdeck.test")
    assert "wrote serving certificate" in text
    for secret in hidden:
        assert secret not in text
        assert secret not in raw, "not even before it is cleaned"


async def _session(tmp_path: Path) -> list[str]:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('very-secret-token,scraper,1,""\n')
    async with ApiServer(ServerOptions(token_file=tokens)) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(server.kubeconfig()))
        config = Config.load(path)
        async with Client.connect(config) as client:
            source = SelfSigned("hook", "kube-system", client=client, dns_names=("localhost",))
            hooks = WebhookServer(WebhookOptions(host="127.0.0.1", port=0), certificates=source)
            hooks.register("/anything", lambda request: Response(200, b""))
            async with hooks:
                authority = Authority()
                authority.issue(tmp_path)
                metrics = MetricsServer(
                    RuntimeMetrics().registry,
                    "127.0.0.1:0",
                    certificates=FileCertificates(tmp_path),
                    reviewer=AccessReviewer(client),
                )
                async with metrics:
                    web = await Web.connect(metrics.address[1], authority.client_context())
                    for token in ("very-secret-token", "another-secret-token"):
                        await web.send("GET", "/metrics", b"", {"Authorization": f"Bearer {token}"})
                    await web.close()
            secret = await client.get(Secret, "hook-tls", "kube-system")
            get_logger("quarterdeck.test").info("read", secret=secret)
        anonymous = config.evolve(
            token="wrong-secret-token", tls=config.tls.__class__(ca_data=config.tls.ca_data)
        )
        async with Client.connect(anonymous) as client:
            with pytest.raises(Unauthorized) as refused:
                await client.get(Secret, "hook-tls", "kube-system")
            get_logger("quarterdeck.test").error("refused", refused.value)
    await until(lambda: True)
    key = bytes(secret.data["tls.key"]).decode().splitlines()[1]
    authority_key = bytes(secret.data["ca.key"]).decode().splitlines()[1]
    user_key = config.tls.key_data.splitlines()[1]
    return ["very-secret-token", "another-secret-token", "wrong-secret-token", key, authority_key, user_key]


def test_what_json_cannot_hold_is_written_as_text(output: Output) -> None:
    logger_on(output).info("odd", large=2**70, nested={"by": {1: 2**70}})
    [line] = output.records
    assert (line["large"], line["nested"]) == (2**70, {"by": {"1": 2**70}})


def test_fields_made_late_are_a_mapping_like_any_other() -> None:
    with bound_fields(controller="gang"), LazyFields(lambda: {"reconcileID": "r-4"}):
        fields = current_fields()
        assert len(fields) == 2
        assert dict(fields) == {"controller": "gang", "reconcileID": "r-4"}
        assert fields["reconcileID"] == "r-4"


def test_moments_are_written_with_milliseconds_in_utc(output: Output) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "text", None, None)
    record.created = 1_700_000_000.0625
    assert JsonFormatter().format(record).startswith('{"level":"info","ts":"2023-11-14T22:13:20.062Z"')


def test_many_different_errors_are_not_all_remembered() -> None:
    guard = RepeatGuard(60)
    assert guard.admit("first", 0) == 0
    assert guard.admit("first", 59) is None
    for index in range(1023):
        assert guard.admit(f"error {index}", 59) == 0
    assert guard.admit("first", 59) is None, "there was room for all of them"
    assert guard.admit("one more", 59) == 0
    assert guard.admit("first", 59) == 0, "it was forgotten"
    assert guard.admit("first", 119) == 0
    assert guard.admit("first", 120) is None
    assert guard.admit("first", 179) == 1
