"""What a start of pytest costs where the wheel is installed: ``make starttax``.

Makes an environment with pytest, times ``pytest --version`` and a run of one empty test in it, installs the
wheel, and times both again. Prints the best of several runs each.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

RUNS = 7


def main() -> int:
    (wheel,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "pytest>=8.4"], check=True)
        before = best(python, folder)
        subprocess.run([*install, str(Path(wheel).resolve())], check=True)
        after = best(python, folder)
    print(f"one empty test: {before:.2f} s without the wheel, {after:.2f} s with it")
    return 0


def best(python: Path, folder: Path) -> float:
    """Seconds of the fastest run of one empty test."""
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run(
            [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        times.append(time.perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
