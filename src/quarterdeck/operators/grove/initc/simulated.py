"""The wait of ``grove-initc`` where kubelets are simulated and run no containers."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.k8s import Container, Pod
from quarterdeck.operators.grove import names
from quarterdeck.runtime.cache import Cache

from .argument import ArgumentError, parse_arguments
from .waiting import missing_pods


class StartupGate:
    """Says whether an init container finds what it waits for; only ours waits for anything."""

    def __init__(self, cache: Cache) -> None:
        """``cache`` holds the pods."""
        self._cache: Final = cache

    def __call__(self, pod: Pod, container: Container) -> bool:
        """Whether the container ends."""
        if container.name != names.INIT_CONTAINER:
            return True
        try:
            wanted = parse_arguments(container.args)
        except ArgumentError:
            return False  # the real one would fail again and again
        gang = pod.metadata.labels.get(names.PODGANG, "")
        informer = self._cache.informer(Pod)
        decode = informer.decoder(Pod)
        pods = (
            decode(entry)
            for entry in informer.entries()
            if entry.namespace == pod.metadata.namespace and entry.labels.get(names.PODGANG) == gang
        )
        return not missing_pods(wanted, pods)
