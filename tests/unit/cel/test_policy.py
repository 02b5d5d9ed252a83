"""What admission policies need: authorizer, composed variables, message construction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from quarterdeck.cel import (
    DYN,
    INT,
    Attributes,
    AuthorizerValue,
    CelCompileError,
    CelRuntimeError,
    Environment,
    MutationTypes,
    ResourceCheck,
    StructValue,
    object_type,
)
from quarterdeck.cel.library.authorizer import AccessError
from quarterdeck.cel.library.mutation import plain, type_name_problems


class Host:
    """Allows what it is told and remembers what it was asked."""

    def __init__(self, allowed: bool = True) -> None:
        self.asked: list[Attributes] = []
        self._allowed = allowed

    def check(self, attributes: Attributes) -> tuple[bool, str]:
        self.asked.append(attributes)
        if attributes.verb == "crash":
            raise AccessError("host is down")
        return self._allowed, "because"


def ask(expression: str, host: Host) -> Any:
    program = Environment({"object": DYN}, authorizer=True).compile(expression)
    authorizer = AuthorizerValue(host)
    resource = ResourceCheck(
        host, Attributes(is_resource_request=True, resource="pods", namespace="ns", name="p")
    )
    return program.evaluate({"object": {}, "authorizer": authorizer, "authorizer.requestResource": resource})


def test_resource_checks_ask_the_host() -> None:
    host = Host()
    expression = (
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('n').name('x')"
        ".fieldSelector('a=b').labelSelector('c=d').check('get').allowed()"
    )
    assert ask(expression, host) is True
    assert host.asked == [
        Attributes(
            verb="get",
            is_resource_request=True,
            group="apps",
            resource="deployments",
            subresource="scale",
            namespace="n",
            name="x",
            field_selector="a=b",
            label_selector="c=d",
        )
    ]


def test_path_and_service_account_checks_ask_the_host() -> None:
    host = Host(allowed=False)
    assert (
        ask("authorizer.serviceAccount('ns', 'sa').path('/healthz').check('get').reason()", host) == "because"
    )
    assert host.asked == [Attributes(verb="get", path="/healthz", service_account=("ns", "sa"))]


def test_the_resource_of_the_request_can_be_checked() -> None:
    host = Host()
    assert ask("authorizer.requestResource.check('delete').allowed()", host) is True
    assert host.asked[0].resource == "pods"


def test_a_failing_host_is_a_decision_not_an_error() -> None:
    assert ask("authorizer.path('/x').check('crash').errored()", Host()) is True
    assert ask("authorizer.path('/x').check('crash').error()", Host()) == "host is down"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        (
            "authorizer.serviceAccount('N', 'a').path('/').check('get').allowed()",
            "Invalid service account namespace",
        ),
    ],
)
def test_senseless_checks_are_errors(expression: str, message: str) -> None:
    with pytest.raises(CelRuntimeError, match=message):
        ask(expression, Host())


def test_rules_have_no_authorizer() -> None:
    with pytest.raises(CelCompileError, match="undeclared reference to 'authorizer'"):
        Environment({"self": INT}).compile("authorizer.path('/').check('get').allowed()")


class Lazy(Mapping[str, Any]):
    """Counts how often its values are asked for."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values_ = values
        self.read: list[str] = []

    def __getitem__(self, key: str) -> Any:
        self.read.append(key)
        return self.values_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


def test_composed_variables_are_read_only_when_used() -> None:
    lazy = Lazy({"a": 1, "b": 2})
    variables = object_type("kubernetes.variables", {"a": INT, "b": INT})
    program = Environment({"variables": variables}).compile("variables.a > 5 && variables.b > 5")
    assert program.evaluate({"variables": StructValue("kubernetes.variables", lazy)}) is False
    assert lazy.read == ["a"]


def build(expression: str) -> Any:
    return (
        Environment({"object": DYN}, types=MutationTypes()).compile(expression).evaluate({"object": {"n": 3}})
    )


def test_objects_are_built_and_turned_into_json() -> None:
    built = build(
        "Object{spec: Object.spec{replicas: object.n + 1, ?gone: optional.none(), "
        "list: [Object.spec.list{a: 1}]}}"
    )
    assert plain(built) == {"spec": {"replicas": 4, "list": [{"a": 1}]}}
    assert type_name_problems(built) == []


def test_objects_of_the_wrong_type_are_found() -> None:
    (problem,) = type_name_problems(build("Object{spec: Object.status{a: 1}}"))
    assert problem.startswith('unexpected type name "Object.status", expected "Object.spec", which matches')


def test_json_patches_are_built() -> None:
    (patch,) = build(
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: {'x': [1]}}]"
    )
    assert plain(patch) == {"op": "add", "path": "/metadata/labels/a~1b~0c", "value": {"x": [1]}}


@pytest.mark.parametrize(
    "expression",
    ["JSONPatch{op: 1}", "JSONPatch{nope: 'x'}", "Nope{a: 1}"],
)
def test_malformed_messages_are_refused(expression: str) -> None:
    with pytest.raises(CelCompileError):
        build(expression)


def test_messages_exist_only_where_declared() -> None:
    with pytest.raises(CelCompileError, match="undeclared reference to 'Object'"):
        Environment({}).compile("Object{a: 1}")
