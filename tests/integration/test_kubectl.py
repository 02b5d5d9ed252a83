"""A stock kubectl against the embedded server: every command of the script in ``tools/parity``.

What is wanted is what the real kube-apiserver answered when ``tools/parity/record.py`` last ran, so the test
means the same where the real one is absent. A kubectl of another version than the recorded ones is held to
the exit codes and words in the script.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parity import golden
from parity.compare import difference, surprises
from parity.normal import normalise
from parity.runner import Kubectl, Outcome
from parity.script import Step, load

GOLDEN = golden.load()

#: the commands of kubectl that must behave as on a real server
COMMANDS = (
    """
get -o wide|get -o yaml|get -o json|get -o jsonpath|get -o custom-columns|get -w|get --raw|describe|create -f
create configmap|create secret generic|create secret tls|create secret docker-registry|create namespace
create deployment|create job|create cronjob|create service clusterip|create service nodeport
create service externalname|create serviceaccount|create role|create rolebinding|create clusterrole
create clusterrolebinding|create quota|create priorityclass|create poddisruptionbudget|create ingress
create token|apply -f|apply --server-side|apply -k|diff|edit|patch --type=json|patch --type=merge|patch -p
replace|label|annotate|scale|delete --cascade=orphan|delete --cascade=foreground|delete --cascade=background
wait|explain --recursive|api-resources|api-versions|auth can-i|auth whoami|auth reconcile|get --as|events
taint|cordon|uncordon|drain|run|expose|set image|set env|set resources|set serviceaccount
set selector|set subject|rollout status|rollout history|rollout undo|autoscale|proxy
create --dry-run=server|apply --validate=strict
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


def test_step_has_the_words_of_the_real_server(
    kubectl: Kubectl, step: Step, embedded_outcomes: Callable[[Kubectl], dict[str, Outcome]]
) -> None:
    if not step.is_for(kubectl.version):
        pytest.skip(f"kubectl {kubectl.version} does not know this command")
    found = embedded_outcomes(kubectl)[step.id]
    recorded = GOLDEN.get(kubectl.version)
    if recorded is None:
        text = "\n".join(surprises([step], {step.id: found}))
    elif step.id in recorded:
        text = difference(step, recorded[step.id], found)
    else:
        text = "not recorded yet: run tools/parity/record.py"
    if text:
        # The diff says it all; a thousand lines of locals would hide it.
        pytest.fail(text, pytrace=False)


@pytest.mark.parametrize("version", sorted(GOLDEN))
def test_recorded_outcomes_belong_to_this_script(version: str) -> None:
    steps = {step.id for step in load() if step.is_for(version)}
    assert steps == set(GOLDEN[version]), "run tools/parity/record.py again"


@pytest.mark.parametrize("command", COMMANDS)
def test_script_drives_each_command_of_the_issue(command: str) -> None:
    first, *rest = command.split()
    assert any(
        step.run.split()[0] == first and all(f" {word}" in step.run for word in rest) for step in load()
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("web    1/1   3m2s\n", "web  1/1  <age>\n"),
        ("not-ready:NoExecute op=Exists for 300s\n", "not-ready:NoExecute op=Exists for 300s\n"),
        ("  uid: 32c0d7bc-5c83-4552-b142-9f7a2a6e8d84\n", "  uid: <uid>\n"),
        ('  resourceVersion: "203"\n', '  resourceVersion: "<rv>"\n'),
        ("at https://127.0.0.1:6443 now", "at <server> now"),
        ("80:31234/TCP", "80:<nodeport>/TCP"),
        ("replicas: 31234", "replicas: 31234"),
        ("Created: Sun, 15 Nov 2026 22:54:02 +0000", "Created: <time>"),
    ],
)
def test_normalisation_takes_out_only_what_changes(text: str, wanted: str) -> None:
    assert normalise(text) == wanted
