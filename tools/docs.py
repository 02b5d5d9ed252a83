"""Keep the documentation true: run its Python examples, check its links, rebuild its generated pages.

    python tools/docs.py [--check]

`--check` writes nothing and fails when a generated page is out of date.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?[^)]*\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
#: scripts that write a page from code or data; each knows `--check`
_GENERATORS = (
    "tools/metrics_reference.py",
    "tools/options_reference.py",
    "tools/field_reference.py",
    "tools/designs_page.py",
    "tools/layers_page.py",
    "tools/health_page.py",
)


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def examples(page: Path) -> Iterator[str]:
    yield from _BLOCK.findall(page.read_text())


def broken_links(page: Path) -> list[str]:
    """Relative links that lead nowhere, or to a heading that is not there."""
    broken: list[str] = []
    for target, heading in _LINK.findall(_CODE.sub("", page.read_text())):
        if target.startswith(("http://", "https://")):
            continue
        file = page.parent / target if target else page
        if not file.exists():
            broken.append(target)
        elif heading and heading not in anchors(file):
            broken.append(f"{target}#{heading}")
    return broken


def anchors(page: Path) -> set[str]:
    """What headings of a page are called in links to them."""
    fenceless = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = _HEADING.findall(fenceless)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def run_example(page: Path, number: int, code: str) -> str:
    """The end of the error output, or "" when the example runs."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT)
    return "" if done.returncode == 0 else f"{page.name}, example {number}: {done.stderr[-800:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    problems: list[str] = []
    count = 0
    for page in pages():
        problems += [f"{page.name}: broken link {target}" for target in broken_links(page)]
        for number, code in enumerate(examples(page), 1):
            count += 1
            if problem := run_example(page, number, code):
                problems.append(problem)
    for script in _GENERATORS:
        if (ROOT / script).exists():
            command = [sys.executable, str(ROOT / script), *(["--check"] if options.check else [])]
            if subprocess.run(command, check=False).returncode:
                problems.append(f"{script} failed")
    for problem in problems:
        print(problem)
    print(f"{count} examples, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
