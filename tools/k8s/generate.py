"""Everything that follows from the release of Kubernetes, by one command.

    python tools/k8s/generate.py                    write the classes from the recorded facts
    python tools/k8s/generate.py --check            fail if they are not what the facts give
    python tools/k8s/generate.py --refresh          record the facts again, then write the classes
    python tools/k8s/generate.py --version v1.37.0  move to that release first, then the same

The release is what ``tools/kube/go.mod`` says. The facts are the files in ``src/quarterdeck/apiserver/data``:

    types.json      fields, protobuf numbers, list types, defaults of all types     from the Go sources
    internal.json   how error texts print parts of objects                          from the Go sources
    resources.json  what a fresh server serves, prints as tables and creates        from a real server

The classes are ``src/quarterdeck/api/k8s``. Recording needs Go and, the first time for a release, the network
and the minutes that ``make kube`` takes; writing and checking need neither.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOOLS))

from k8s import gomodule, models  # noqa: E402
from kube import server  # noqa: E402


def record() -> None:
    """Record the facts, in a process of its own each: they read the release when they are loaded."""
    print("building the real server", flush=True)
    subprocess.run(["sh", str(TOOLS / "kube" / "build.sh")], check=True)
    for name in ("typetable", "internalform", "served"):
        print(f"recording: {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"k8s.{name}"], cwd=TOOLS, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="only compare, without Go and without network")
    what.add_argument("--refresh", action="store_true", help="record the facts again first")
    what.add_argument("--version", help="move tools/kube/go.mod to this release and record its facts first")
    options = parser.parse_args()
    version: str = options.version or server.VERSION
    if not re.fullmatch(r"v1\.\d+\.\d+", version):
        parser.error(f"{version} is not a release of Kubernetes, such as v1.36.3")
    if options.check:
        wrong = models.drift(version)
        for name in wrong:
            print(f"api/k8s/{name} is not what the recorded facts give: run make kubernetes", file=sys.stderr)
        return 1 if wrong else 0
    if (options.version or options.refresh) and not shutil.which("go"):
        parser.error("recording facts needs Go on the PATH")
    if version != server.VERSION:
        print(f"moving from {server.VERSION} to {version}", flush=True)
        gomodule.move(version)
    if options.version or options.refresh:
        record()
    models.write(version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
