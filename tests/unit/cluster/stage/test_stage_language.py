"""The languages of Stages: the part of jq and of Go's templates that there is."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.cluster.stage.error import StageError
from quarterdeck.cluster.stage.function import KNOWN, Surroundings, functions
from quarterdeck.cluster.stage.jq import Query
from quarterdeck.cluster.stage.template import Template

AROUND = Surroundings(now="2026-01-01T00:00:00Z", started="s", node_ip="10.0.0.1", pod_ip="10.1.0.1")
POD: dict[str, Any] = {
    "metadata": {"name": "p", "annotations": {"a/b": "x"}, "finalizers": []},
    "spec": {"containers": [{"name": "one", "image": "i:1"}, {"name": "two"}], "nodeName": "n"},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False"}],
    },
}


@pytest.mark.parametrize(
    ("program", "values"),
    [
        (".status.phase", ["Running"]),
        (".metadata.deletionTimestamp", []),
        ('.metadata.annotations["a/b"]', ["x"]),
        ('.metadata.annotations."a/b"', ["x"]),
        ('.status.conditions.[] | select( .type == "Ready" ) | .status', ["True"]),
        ('.status.conditions[] | select(.type != "Ready") | .status', ["False"]),
        ('.status.conditions[] | select(.type == "Ready" and .status == "False")', []),
        ('.status.conditions[] | select((.type == "x") or (.status == "True")) | .type', ["Ready"]),
        (".spec.containers.[].name", ["one", "two"]),
        (".spec.containers[1].name", ["two"]),
        ('.spec.containers[-1].image // "none"', ["none"]),
        (".spec.containers | length", [2]),
        (".spec.containers | length > 1", [True]),
        (".metadata.nothing | not", [True]),
        (".nothing.[].name", None),
        (".nothing[]?", []),
        (".metadata.name.[]", None),
    ],
)
def test_jq(program: str, values: list[Any] | None) -> None:
    assert Query(program).values(POD) == values


@pytest.mark.parametrize(
    ("program", "word"),
    [(".a | to_entries", "to_entries"), ("..", ".."), (".a | map(.b)", "map"), (".a = 1", "=")],
)
def test_jq_that_is_not_there_is_refused_by_name(program: str, word: str) -> None:
    with pytest.raises(StageError, match="is not available here") as caught:
        Query(program)
    assert repr(word) in str(caught.value)


def render(text: str) -> str:
    return Template(text, KNOWN).render(POD, functions(AROUND))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain { text }", "plain { text }"),
        ("{{ .status.phase }} {{ .nothing.at.all }}", "Running <no value>"),
        ("{{ $x := Now }}{{ $x | Quote }}", '"2026-01-01T00:00:00Z"'),
        ("{{ range .spec.containers }}[{{ .name }}]{{ end }}", "[one][two]"),
        ("{{ range $i, $c := .spec.containers }}{{ $i }}={{ $c.name }} {{ end }}", "0=one 1=two "),
        ("{{ range $c := .spec.containers }}{{ $c.name }}{{ end }}", "onetwo"),
        ("{{ range .none }}x{{ else }}nobody{{ end }}", "nobody"),
        ("{{ range $k, $v := .metadata.annotations }}{{ $k }}:{{ $v }}{{ end }}", "a/b:x"),
        ('{{ if .none }}a{{ else if eq .status.phase "Running" }}b{{ else }}c{{ end }}', "b"),
        ("{{ with .none }}a{{ else }}b{{ end }}{{ with .metadata }}{{ .name }}{{ end }}", "bp"),
        (
            "{{ with $ips := NodeIPsWith .spec.nodeName }}{{ index $ips 0 }}{{ index . 0 }}{{ end }}",
            "10.0.0.110.0.0.1",
        ),
        (
            '{{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) | Quote }}',
            '"10.1.0.1"',
        ),
        ('{{ index .metadata.annotations "a/b" }}{{ or ( index ( or .no dict ) "k" ) "d" }}', "xd"),
        ('a {{- /* nothing */ -}} b{{- "}}" -}} c', "ab}}c"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ('{{ and 1 0 "never" }}{{ or 0 "a" "b" }}{{ not nil }}', "0atrue"),
        ('{{ printf "%s-%d %q%%" .metadata.name 3 "t" }}', 'p-3 "t"%'),
        ('{{ add 1 2 3 }} {{ .none | default "d" | upper }} {{ list 1 2 | len }}', "6 D 2"),
        ("{{ (index .spec.containers 1).name }}", "two"),
        ("{{ len .spec.containers }}{{ true }}{{ `raw` }}", "2trueraw"),
    ],
)
def test_templates(text: str, found: str) -> None:
    assert render(text) == found


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{{ semver "1" }}', "function 'semver' is not available here"),
        ("{{ .a | genCA }}", "function 'genCA' is not available here"),
        ('{{ template "x" }}', "is not available here"),
        ("{{ if .a }}", "{{ end }} is missing"),
        ("{{ .a ", "an action is not closed"),
        ("{{ $x }}", "variable $x is not declared"),
        ("{{ index .spec.containers 9 }}", "index 9 is out of range"),
        ("{{ .status.phase.x }}", "which has no fields"),
        ('{{ printf "%x" 1 }}', "verb that is not available"),
        ("{{ .a b }}", "is too much"),
    ],
)
def test_templates_that_make_no_sense_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(StageError) as caught:
        render(text)
    assert complaint in str(caught.value)
