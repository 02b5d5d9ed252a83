"""The same kubectl commands on the real kube-apiserver and on the embedded server, in the same minute.

``test_kubectl`` compares with what was recorded; this one also finds a record that has become stale.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kube.server import is_built
from parity import script
from parity.compare import differences, on_real
from parity.runner import Kubectl, Outcome

pytestmark = [
    pytest.mark.kube,
    pytest.mark.skipif(not is_built(), reason="the real kube-apiserver is not built (make kube, needs Go)"),
]


def test_both_servers_give_the_same_words(
    kubectl: Kubectl, embedded_outcomes: Callable[[Kubectl], dict[str, Outcome]]
) -> None:
    steps = script.load()
    diffs = differences(steps, on_real(steps, kubectl), embedded_outcomes(kubectl))
    if diffs:
        pytest.fail("\n\n".join(diffs.values()), pytrace=False)
