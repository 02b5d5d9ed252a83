"""Run the same kubectl commands on the real and on the embedded server and show where the words differ.

    python tools/parity/compare.py                       with each kubectl that is found
    python tools/parity/compare.py --kubectl /path/to/kubectl
    python tools/parity/compare.py --recorded            against the recorded outcomes, no real server needed

Exit code 1 when a step differs.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kube.server import cache_dir, is_built
from parity import golden, script, server
from parity.runner import Kubectl, Outcome, find_kubectls, probe, run_script


def difference(step: script.Step, wanted: Outcome, found: Outcome) -> str:
    """A readable diff of one step, or nothing when it is equal."""
    if step.differs:
        wanted, found = Outcome(wanted.code, "", ""), Outcome(found.code, "", "")
    if wanted == found:
        return ""
    lines = [f"== kubectl {step.run}"]
    if wanted.code != found.code:
        lines.append(f"exit code {wanted.code} on the real server, {found.code} on the embedded one")
    for name in ("out", "err"):
        real, embedded = getattr(wanted, name).splitlines(), getattr(found, name).splitlines()
        diff = list(
            difflib.unified_diff(real, embedded, f"{name} real", f"{name} embedded", lineterm="", n=1)
        )
        lines += diff
        if not diff and getattr(wanted, name) != getattr(found, name):
            lines.append(f"{name}: only one of the two ends with a newline")
    return "\n".join(lines)


def differences(
    steps: list[script.Step], wanted: dict[str, Outcome], found: dict[str, Outcome]
) -> dict[str, str]:
    """Step id -> diff, for the steps that both outcomes have."""
    both = [step for step in steps if step.id in wanted and step.id in found]
    return {step.id: text for step in both if (text := difference(step, wanted[step.id], found[step.id]))}


def surprises(steps: list[script.Step], outcomes: dict[str, Outcome]) -> list[str]:
    """Steps whose exit code or words are not what the script says: the script is wrong, or the server."""
    found = []
    for step in steps:
        if step.id not in outcomes:
            continue
        outcome = outcomes[step.id]
        if outcome.code != step.code:
            found.append(f"{step.id}: exit code {outcome.code}, not {step.code}: {outcome.err.strip()[:300]}")
        found += [f"{step.id}: no {word!r} in the output" for word in step.words if word not in outcome.text]
    return found


def on_real(steps: list[script.Step], kubectl: Kubectl) -> dict[str, Outcome]:
    with server.real() as kubeconfig:
        return run_script(steps, kubectl, kubeconfig)


def on_embedded(steps: list[script.Step], kubectl: Kubectl) -> dict[str, Outcome]:
    with server.embedded() as running:
        return run_script(steps, kubectl, running.kubeconfig)


def _compare(steps: list[script.Step], kubectl: Kubectl, recorded: bool) -> int:
    wanted = golden.load().get(kubectl.version) if recorded else _timed("real", on_real, steps, kubectl)
    if wanted is None:
        print(f"nothing is recorded for kubectl {kubectl.version}", file=sys.stderr)
        return 1
    found = _timed("embedded", on_embedded, steps, kubectl)
    diffs = differences(steps, wanted, found)
    for text in diffs.values():
        print(text + "\n")
    # A deviation on purpose is not an equal step: it is counted and named, so that none hides.
    waived = [step for step in steps if step.differs and step.id in found and step.id not in diffs]
    for step in waived:
        print(f"== kubectl {step.run}\nonly the exit code is compared: {step.differs}\n")
    equal = len(found) - len(diffs) - len(waived)
    counts = f"{equal} steps equal, {len(diffs)} differ, {len(waived)} deviate on purpose"
    print(f"kubectl {kubectl.version}: {counts}")
    return len(diffs)


def _timed(
    name: str,
    run: Callable[[list[script.Step], Kubectl], dict[str, Outcome]],
    steps: list[script.Step],
    kubectl: Kubectl,
) -> dict[str, Outcome]:
    started = time.monotonic()
    outcomes = run(steps, kubectl)
    print(f"kubectl {kubectl.version} on {name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description="compare kubectl's words on two servers")
    parser.add_argument("--kubectl", type=Path, action="append", help="this program (may be repeated)")
    parser.add_argument("--recorded", action="store_true", help="compare with the recorded outcomes")
    options = parser.parse_args()
    kubectls = [probe(path) for path in options.kubectl or []] or find_kubectls(cache_dir() / "kubectl")
    if not kubectls:
        print("there is no kubectl on PATH, and none is built (make kube)", file=sys.stderr)
        return 1
    if not options.recorded and not is_built():
        print("the real server is not built (make kube, needs Go); use --recorded", file=sys.stderr)
        return 1
    steps = script.load()
    return 1 if sum(_compare(steps, kubectl, options.recorded) for kubectl in kubectls) else 0


if __name__ == "__main__":
    sys.exit(main())
