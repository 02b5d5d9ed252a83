"""Record the outcomes of the script on the real server in tests/integration/kubectl_golden.json.

    python tools/parity/record.py [--kubectl PATH] [--check]

The script is run twice on fresh servers; steps that differ between the two runs are reported and nothing is
written, because a test of them could not be relied on. --check writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kube.server import cache_dir, is_built
from parity import golden, script
from parity.compare import differences, on_real, surprises
from parity.runner import find_kubectls, probe


def main() -> int:
    parser = argparse.ArgumentParser(description="record kubectl's words on the real server")
    parser.add_argument("--kubectl", type=Path, action="append", help="this program (may be repeated)")
    parser.add_argument("--check", action="store_true", help="only report steps that are not reliable")
    options = parser.parse_args()
    kubectls = [probe(path) for path in options.kubectl or []] or find_kubectls(cache_dir() / "kubectl")
    if not kubectls or not is_built():
        print("recording needs a kubectl and the real server (make kube)", file=sys.stderr)
        return 1
    steps = script.load()
    recorded = golden.load()
    problems: list[str] = []
    for kubectl in kubectls:
        first, second = on_real(steps, kubectl), on_real(steps, kubectl)
        problems += [f"not the same twice:\n{text}" for text in differences(steps, first, second).values()]
        problems += surprises(steps, first)
        recorded[kubectl.version] = first
    print("\n".join(problems) or "every step gave the same twice, and what the script expects")
    if not problems and not options.check:
        golden.save(recorded)
        print(f"written: {golden.PATH}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
