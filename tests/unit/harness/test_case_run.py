"""The runner against a small server of its own: verdicts, output and exit code."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.harness.command import main


class _Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers = 0

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_GET(self) -> None:
        type(self).answers += 1
        if "watch" in self.path:
            body = b'{"type":"ADDED","object":{}}\n{"type":"DELETED","object":{}}\n'
        else:
            body = json.dumps({"count": type(self).answers, "path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Warning", '299 - "careful"')
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    _Server.answers = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    yield path
    server.shutdown()
    thread.join()
    server.server_close()


def _file(directory: Path, *cases: dict[str, Any]) -> str:
    path = directory / "new.json"
    path.write_text(json.dumps({"system": "anything", "cases": list(cases)}))
    return str(path)


def _case(step: dict[str, Any], then: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "kind": "http",
        "given": {"namespace": False},
        "when": {"steps": [{"method": "GET", "path": "/x", **step}]},
        "then": {"steps": [then]},
        **extra,
    }


def _run(kubeconfig: Path, *cases: dict[str, Any]) -> int:
    return main(["--kubeconfig", str(kubeconfig), _file(kubeconfig.parent, *cases)])


def test_a_case_that_holds_passes(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(kubeconfig, _case({}, {"status": 200, "headers": {"warning": {"$regex": "careful"}}})) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_a_failure_shows_id_path_expected_and_actual(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(kubeconfig, _case({}, {"status": 201, "body": {"path": "/y"}})) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FAIL c (new.json)"
    assert "       status: expected 201, got 200" in lines
    assert '       body.path: expected "/y", got "/x"' in lines
    assert lines[-1] == "0 passed, 1 failed"


def test_until_repeats_the_request(kubeconfig: Path) -> None:
    assert _run(kubeconfig, _case({"until": 5}, {"body": {"count": 3}})) == 0


def test_saved_values_reach_later_steps(kubeconfig: Path) -> None:
    case = _case({"save": {"n": "count"}}, {"status": 200})
    case["when"]["steps"].append({"method": "GET", "path": "/x", "query": {"a": "${n}"}})
    case["then"]["steps"].append({"body": {"path": "/x?a=1", "count": {"$notRef": "n"}}})
    assert _run(kubeconfig, case) == 0


def test_watch_answers_are_split_into_events(kubeconfig: Path) -> None:
    then = {"events": [{"type": "ADDED"}, {"type": "DELETED"}]}
    assert _run(kubeconfig, _case({"query": {"watch": "1", "timeoutSeconds": "1"}}, then)) == 0


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (_case({}, {}, kind="telepathy"), "unknown kind 'telepathy'"),
        (_case({"colour": "red"}, {}), "when.steps[0].colour is not understood"),
        (_case({}, {"colour": "red"}), "then.steps[0].colour is not understood"),
        (_case({}, {}, given={"namespace": False, "needs": ["luck"]}), "given.needs: luck is not understood"),
        (_case({}, {"body": {"count": {"$maybe": 1}}}), "body.count: unknown matcher $maybe"),
        (_case({"path": "/${never}"}, {}), "no variable never was saved"),
    ],
)
def test_what_is_not_understood_fails(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str], case: dict[str, Any], text: str
) -> None:
    assert _run(kubeconfig, case) == 1
    assert text in capsys.readouterr().out


def test_an_unreadable_file_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kubeconfig", "/none", str(tmp_path / "none.json")]) == 1
    assert capsys.readouterr().out.endswith("0 passed, 1 failed\n")


def test_only_selects_by_glob(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [_case({}, {"status": 200}, id=name) for name in ("aa", "ab", "b")]
    file = _file(kubeconfig.parent, *cases)
    assert main(["--kubeconfig", str(kubeconfig), "--only", "a*", file]) == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"
