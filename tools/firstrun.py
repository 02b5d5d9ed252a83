"""The way of a newcomer, timed: from a wheel to a running gang, in a fresh folder with a fresh HOME.

    make firstrun                 # python tools/firstrun.py dist/quarterdeck-….whl

Installs the wheel into a new environment, starts a cluster with two simulated nodes, applies the gang of the
quick start with a stock kubectl, and waits until its pods run. Prints how long each step took; the limit of
the whole is a minute. Packages come from pip's cache or from the index, as for everybody.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

LIMIT = 60.0
PODS = "-l app.kubernetes.io/part-of=simple --timeout=60s"
GANG = f"""\
quarterdeck examples grove/2-simple.yaml | kubectl apply -f -
kubectl wait --for=create pod {PODS}
kubectl wait --for=condition=Ready pod {PODS}
"""
STEPS = (
    ("install", "pip install --quiet --disable-pip-version-check {wheel}"),
    ("cluster", "quarterdeck up --nodes 2 --node-capacity nvidia.com/gpu=8 --port 0 --detach"),
    ("gang", GANG),
)


def main() -> int:
    (wheel,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        environment = {
            "HOME": place,
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip")),
            "PATH": f"{home / 'venv' / 'bin'}:{os.environ['PATH']}",
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_INDEX")},
        }
        total = time.perf_counter()
        venv.create(home / "venv", with_pip=True)
        print(f"environment: {time.perf_counter() - total:.1f} s", flush=True)
        try:
            for name, command in STEPS:
                started = time.perf_counter()
                line = command.format(wheel=Path(wheel).resolve())
                subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", line], cwd=home, env=environment, check=True
                )
                print(f"{name}: {time.perf_counter() - started:.1f} s", flush=True)
            total = time.perf_counter() - total
        finally:
            subprocess.run(["quarterdeck", "down"], cwd=home, env=environment, check=False)
    print(f"nothing to a running gang: {total:.1f} s (limit {LIMIT:.0f} s)")
    return 0 if total <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
