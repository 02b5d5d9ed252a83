"""Runs specs of Kubernetes' e2e.test, several processes at a time, each with specs of its own.

The specs of ``run`` are those of Conformance that concern the API (``[sig-api-machinery]`` and
``[sig-auth]``), without those that need a container or more than a few minutes: ``skipped.json`` names them
all, by reason. A spec that is neither skipped nor in ``reference.json`` is run too: it must not go unnoticed
when a new version of the suite brings new ones.

The specs of ``run_workloads`` are all others that can pass without a container process. ``conformance.json``
lists every spec of Conformance with its outcome on both: on kube-apiserver, kube-controller-manager,
kube-scheduler and KWOK with three nodes, and on ``quarterdeck up --nodes 3``. What passes there must go on
to pass.

The specs of ``run_containers`` are those that need containers that run, on ``quarterdeck up --local-node
--runtime oci``; ``containers.json`` lists them with their outcome. They need root, crun or runc, and imported
images: agnhost and nonewprivs, built from Kubernetes' own sources, and a busybox; ``missing_images`` says
which names are not there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from e2e import kubelet
from kube.server import cache_dir
from quarterdeck.cluster.image.store import ImageStore, default_store

FOLDER: Final = Path(__file__).parent
SKIPPED: Final = FOLDER / "skipped.json"
REFERENCE: Final = FOLDER / "reference.json"
CONFORMANCE: Final = FOLDER / "conformance.json"
CONTAINERS: Final = FOLDER / "containers.json"
NODES: Final = 3
PROCESSES: Final = 2
TIMEOUT: Final = 1500.0
#: What the specs that need containers call their images.
IMAGES: Final = (
    "registry.k8s.io/e2e-test-images/agnhost:2.63.0",
    "registry.k8s.io/e2e-test-images/busybox:1.37.0-1",
    "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.0.0",
    "registry.k8s.io/e2e-test-images/nonewprivs:1.4",
    "registry.k8s.io/pause:3.10.2",
)
SPEC_TIMEOUT: Final = 300.0
_AT_ONCE: Final = 4
"""Specs that need containers mostly wait."""
_FOCUS: Final = r"\[sig-(api-machinery|auth)\].*\[Conformance\]"
#: Specs that read all resources at once, and those that make resources come and go, take turns.
_DISCOVERY: Final = re.compile("CustomResource|Discovery|FieldValidation|AdmissionPolicy")


def program() -> Path:
    """The test program; built by ``tools/kube/build.sh conformance``."""
    return cache_dir() / "e2e.test"


def skipped() -> dict[str, list[str]]:
    """Reason -> names of specs that are left out."""
    found: dict[str, list[str]] = json.loads(SKIPPED.read_text())
    return found


def reference() -> list[str]:
    """Names of the specs that pass on the real server."""
    found: list[str] = json.loads(REFERENCE.read_text())
    return found


def workload_specs() -> list[str]:
    """Names of the specs beside those of the API that pass on ours."""
    specs = json.loads(CONFORMANCE.read_text())["specs"]
    return [each["spec"] for each in specs if each.get("ours") == "passed" and not _is_api(each["spec"])]


def _is_api(name: str) -> bool:
    return name.startswith(("[sig-api-machinery]", "[sig-auth]"))


def record(passed: Sequence[str]) -> None:
    """Keep what passed on the real server as the reference."""
    REFERENCE.write_text(json.dumps(sorted(passed), indent=2) + "\n")


def chosen_specs() -> list[str]:
    """The names of the specs to run; asks the program for all it has."""
    with tempfile.TemporaryDirectory() as directory:
        report = _run(
            Path(directory), ["--ginkgo.dry-run", f"--ginkgo.focus={_FOCUS}"], kubeconfig=None, timeout=120.0
        )
    every = [name for name, state, _ in _specs(report) if state == "passed"]
    left_out = {name for names in skipped().values() for name in names}
    unknown = left_out - set(every)
    if unknown:
        raise RuntimeError(f"{SKIPPED.name} names specs that do not exist: {sorted(unknown)}")
    return [name for name in every if name not in left_out]


def run(kubeconfig: Path, *, processes: int = PROCESSES) -> tuple[list[str], dict[str, str]]:
    """Run the specs: names of those that passed, and the messages of those that did not."""
    node = contextlib.nullcontext() if _has_nodes(kubeconfig) else kubelet.running(kubeconfig)
    with node:
        return _run_all(kubeconfig, share(chosen_specs(), processes))


def _has_nodes(kubeconfig: Path) -> bool:
    command = [str(cache_dir() / "kubectl"), f"--kubeconfig={kubeconfig}", "get", "nodes", "-o", "name"]
    return bool(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.strip())


def run_workloads(kubeconfig: Path, *, processes: int = PROCESSES) -> tuple[list[str], dict[str, str]]:
    """The same of all other specs, on a cluster with nodes; those that want it to themselves come last."""
    names = workload_specs()
    alone = [name for name in names if "[Serial]" in name]
    others = [name for name in names if name not in alone]
    passed, failed = _run_all(kubeconfig, [others[start::processes] for start in range(processes)])
    more, worse = _run_all(kubeconfig, [alone])
    return sorted([*passed, *more]), failed | worse


def container_specs() -> list[str]:
    """Names of the specs that need containers and pass on ours."""
    specs = json.loads(CONTAINERS.read_text())["specs"]
    return [each["spec"] for each in specs if each["ours"] == "passed"]


def missing_images() -> list[str]:
    """Names of images that the specs need and that were not imported."""
    store = ImageStore(default_store())
    return [name for name in IMAGES if store.find(name) is None]


def run_containers(kubeconfig: Path) -> tuple[list[str], dict[str, str]]:
    """The same of the specs that need containers, each by itself: one that hangs ends, and the others run."""
    names = container_specs()
    alone = [name for name in names if "[Serial]" in name]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        outcomes = list(
            pool.map(lambda name: _run_one(kubeconfig, name), [n for n in names if n not in alone])
        )
    outcomes += [_run_one(kubeconfig, name) for name in alone]
    failed = {name: message for name, message in outcomes if message}
    return sorted(name for name, message in outcomes if not message), failed


def _run_one(kubeconfig: Path, name: str) -> tuple[str, str]:
    """Its name, and why it failed; empty if it passed. Said at once: all of them take long."""
    failure = _failure(kubeconfig, name)
    print(f"{name}: {' '.join(failure.split())[:1000] or 'passed'}", file=sys.stderr, flush=True)
    return name, failure


def _failure(kubeconfig: Path, name: str) -> str:
    focus = f"--ginkgo.focus={re.escape(name)}$"
    try:
        with tempfile.TemporaryDirectory() as directory:
            report = _run(Path(directory), [focus], kubeconfig=kubeconfig, timeout=SPEC_TIMEOUT)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return str(error)
    outcome = [(state, message) for each, state, message in _specs(report) if each == name]
    state, message = outcome[0] if outcome else ("was not run", "")
    return "" if state == "passed" else message or state


def _run_all(kubeconfig: Path, shares: Sequence[Sequence[str]]) -> tuple[list[str], dict[str, str]]:
    with ThreadPoolExecutor(len(shares)) as pool:
        outcomes = list(pool.map(lambda names: _run_share(kubeconfig, names), shares))
    passed: list[str] = []
    failed: dict[str, str] = {}
    for names, (good, bad) in zip(shares, outcomes, strict=True):
        passed += good
        failed |= bad
        failed |= {name: "was not run" for name in names if name not in good and name not in bad}
    return sorted(passed), failed


def share(names: Sequence[str], processes: int) -> list[list[str]]:
    """Split specs: those that disturb each other go to one process."""
    delicate = [name for name in names if _DISCOVERY.search(name)]
    others = [name for name in names if not _DISCOVERY.search(name)]
    rest = max(1, processes - 1)
    shares = [delicate, *(others[start::rest] for start in range(rest))]
    return [each for each in shares if each] if processes > 1 else [list(names)]


def _run_share(kubeconfig: Path, names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    focus = "|".join(f"{re.escape(name)}$" for name in names)  # the suite's own name stands before it
    with tempfile.TemporaryDirectory() as directory:
        report = _run(Path(directory), [f"--ginkgo.focus={focus}"], kubeconfig=kubeconfig, timeout=TIMEOUT)
    passed: list[str] = []
    failed: dict[str, str] = {}
    for name, state, message in _specs(report):
        if state == "passed":
            passed.append(name)
        else:
            failed[name] = message or state
    return passed, failed


def _run(
    directory: Path, arguments: Sequence[str], *, kubeconfig: Path | None, timeout: float
) -> list[dict[str, Any]]:
    """Run the program and return its report; raises RuntimeError with the end of the output without one."""
    file = directory / "report.json"
    where = [] if kubeconfig is None else [f"--kubeconfig={kubeconfig}"]
    command = [
        str(program()),
        "--provider=skeleton",
        *where,
        f"--kubectl-path={cache_dir() / 'kubectl'}",
        f"--num-nodes={NODES}",
        "--allowed-not-ready-nodes=-1",
        f"--ginkgo.json-report={file}",
        f"--ginkgo.timeout={timeout:.0f}s",
        "--ginkgo.no-color",
        *arguments,
    ]
    # kubectl keeps what it discovers in the home directory: other servers are none of its business
    environment = {**os.environ, "HOME": str(directory)}
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout + 60.0,
        check=False,
    )
    if not file.exists():
        raise RuntimeError(done.stdout.decode(errors="replace")[-2000:] or "no report")
    found: list[dict[str, Any]] = json.loads(file.read_text())
    return found


def _specs(documents: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """(name, state, message) of each spec that was run; set-up steps only when they failed."""
    for document in documents:
        for spec in document["SpecReports"] or ():
            is_spec, state = spec["LeafNodeType"] == "It", spec["State"]
            if state in ("skipped", "pending") or (state == "passed" and not is_spec):
                continue
            texts = [*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]]
            name = " ".join(text for text in texts if text) or spec["LeafNodeType"]
            yield name, state, (spec.get("Failure") or {}).get("Message", "")
