"""Names of the simulation on the wire. Times are in seconds and may have fractions."""

from __future__ import annotations

from typing import Final

SIMULATED: Final = "quarterdeck.dev/simulated"
"""Label of nodes that have no machine; its value is ``true``."""

# Annotations of pods.
START_SECONDS: Final = "quarterdeck.dev/start-seconds"
"""From the binding to the start of the first container."""
INIT_SECONDS: Final = "quarterdeck.dev/init-seconds"
"""How long each init container runs."""
READY_SECONDS: Final = "quarterdeck.dev/ready-seconds"
"""From the start of the containers until they are ready, or ``never``."""
RUN_SECONDS: Final = "quarterdeck.dev/run-seconds"
"""How long the containers run, or ``forever``."""
EXIT_CODE: Final = "quarterdeck.dev/exit-code"
"""Exit code of the containers."""
FAIL_FIRST_ATTEMPTS: Final = "quarterdeck.dev/fail-first-attempts"
"""The first so many attempts exit with 1."""
STOP_SECONDS: Final = "quarterdeck.dev/stop-seconds"
"""How long the containers take to stop once the pod is deleted; the grace period at most."""

FOREVER: Final = "forever"
NEVER: Final = "never"

# Annotation of nodes.
FAILED: Final = "quarterdeck.dev/failed"
"""Its value is ``true`` while the machine is down: the kubelet neither reports nor runs anything."""

RACK: Final = "quarterdeck.dev/rack"
"""Label of nodes: the rack a profile put them into."""
