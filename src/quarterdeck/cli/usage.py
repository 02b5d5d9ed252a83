"""The end of each command's help: examples of its use, and the page about it.

Commands of other distributions bring theirs as ``epilog``, where ``{docs}`` stands for the address of the
pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PAGES: Final[Mapping[str, str]] = {
    "up": "cluster",
    "status": "quickstart",
    "down": "quickstart",
    "logs": "quickstart",
    "kubeconfig": "quickstart",
    "demo": "quickstart",
    "examples": "quickstart",
    "nodes": "cluster/#simulated-nodes",
    "node": "node",
    "image": "node",
    "run": "operations",
    "manifests": "operations",
    "uninstall": "uninstall",
    "finalizers": "uninstall",
    "dashboard": "dashboard",
    "top": "dashboard",
    "check": "operations",
    "new": "tutorial",
    "apiserver": "apiserver",
    "torture": "torture",
    "bench": "performance",
    "completion": "quickstart",
}
_EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "up": (
        "up --nodes 4 --node-capacity nvidia.com/gpu=8 --detach",
        "up --data-dir ~/my-cluster        # state survives a restart",
        "up --local-node                   # pods run on this machine",
        "up --operators none               # a plain Kubernetes for tests",
    ),
    "status": ("status",),
    "down": ("down", "down my-cluster"),
    "logs": ("logs --follow", "logs trainjob/resnet"),
    "kubeconfig": ("kubeconfig > kubeconfig.yaml",),
    "demo": ("demo", "demo --once --operators kai", "demo --local"),
    "examples": (
        "examples kai | kubectl apply -f -",
        "examples kai/2-gang.yaml",
        "examples --to my-examples",
    ),
    "nodes": ("nodes add 4 --node-capacity nvidia.com/gpu=8", "nodes fail node-1", "nodes restore node-1"),
    "node": ("node", "node my-cluster --end-pods"),
    "image": ("image import my-image.tar", "image list"),
    "run": ("run --operators kai --context my-cluster --install --webhook-url https://192.0.2.7:9443",),
    "manifests": (
        "manifests --image registry.example.io/quarterdeck:1 | kubectl apply --server-side -f -",
        "manifests --operators kai --only crds",
    ),
    "uninstall": ("uninstall --context my-cluster", "uninstall --context my-cluster --purge --yes"),
    "finalizers": ("finalizers purge example.io/cleanup widgets.example.io --yes",),
    "dashboard": ("dashboard --open", "dashboard --context my-cluster"),
    "top": ("top", "top --once --context my-cluster"),
    "check": ("check", "check ipam -o json", "check --list"),
    "new": ("new project my-operator --kind Widget", "new kind Gadget", "new webhook Widget"),
    "apiserver": ("apiserver --port 0 --kubeconfig ./kubeconfig",),
    "torture": ("torture --crd config/crd --sample config/samples/widget.yaml -- ./manager",),
    "bench": ("bench queue", "bench apiserver --quick"),
    "completion": ("completion bash",),
}


def epilog(command: str) -> str:
    """What the help of a command of this package ends with."""
    examples = "\n".join(f"  quarterdeck {example}" for example in _EXAMPLES[command])
    page, _, section = _PAGES[command].partition("/")
    return f"examples:\n{examples}\n\ndocs: {{docs}}/{page}/{section}"
