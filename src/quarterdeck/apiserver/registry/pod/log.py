"""pods/<name>/log: which container, which part of its text."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.document.shape import ShapeError, parse_time
from quarterdeck.apiserver.nodelink import NodeLink
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError
from quarterdeck.wire.http import Response

#: the log of a container of a pod on a node that cannot be asked
LogText = Callable[[Json, str], bytes]
_SIMULATED = "quarterdeck.dev/simulated"


class LogOptions:
    """The query of a log request, checked."""

    def __init__(self, request: ApiRequest) -> None:
        self.container = request.param("container")
        self.tail = request.integer("tailLines")
        self.limit = request.integer("limitBytes")
        since_seconds = request.integer("sinceSeconds")
        since_time = request.param("sinceTime")
        if since_time:
            try:
                parse_time(since_time)
            except ShapeError as error:
                raise status.bad_request(str(error)) from None
        errors: list[FieldError] = []
        if self.tail is not None and self.tail < 0:
            errors.append(fielderror.invalid("tailLines", self.tail, "must be greater than or equal to 0"))
        if self.limit is not None and self.limit < 1:
            errors.append(fielderror.invalid("limitBytes", self.limit, "must be greater than 0"))
        if since_seconds is not None and since_time:
            text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            errors.append(fielderror.forbidden("[]", text))
        elif since_seconds is not None and since_seconds < 1:
            errors.append(fielderror.invalid("sinceSeconds", since_seconds, "must be greater than 0"))
        if request.param("stream"):
            errors.append(fielderror.forbidden("stream", "may not be specified"))
        if errors:
            raise status.invalid("PodLogOptions", "", request.info.name, errors)

    def part_of(self, text: bytes) -> bytes:
        """The last lines, and of those the first bytes."""
        if self.tail is not None:
            lines = text.splitlines(keepends=True)
            text = b"".join(lines[max(len(lines) - self.tail, 0) :])
        return text if self.limit is None else text[: self.limit]


def serve_log(request: ApiRequest, source: LogText, nodes: NodeLink) -> Response | Awaitable[Response]:
    """The log of a pod as text; nothing while it is on no node."""
    options = LogOptions(request)
    info = request.info
    entry = request.resource.bucket.get(info.namespace, info.name)
    if entry is None:
        raise request.resource.not_found(info.name)
    pod = request.resource.read(entry)
    check_container(options.container, pod)
    node = pod["spec"].get("nodeName")
    if not node:
        return Response(204, content_type="text/plain")
    container = options.container or pod["spec"]["containers"][0]["name"]
    if nodes.reaches(node):
        parts = ("containerLogs", info.name, pod["metadata"]["uid"], container)
        if request.http.header("upgrade").lower() == "websocket":
            return nodes.upgrade(node, parts, request.http)
        return nodes.get(node, parts, request.http.raw_query)
    return Response(200, options.part_of(source(pod, container)), content_type="text/plain")


def is_simulated(labels: Mapping[str, str]) -> bool:
    """Whether a node has no machine, by its labels."""
    return labels.get(_SIMULATED) == "true"


def simulated_log(pod: Json, name: str) -> bytes:
    """One line that says what would have run; nothing of a container that has not started."""
    spec, state = pod["spec"], pod.get("status") or {}
    kinds = ("containers", "initContainers", "ephemeralContainers")
    container = next(each for kind in kinds for each in spec.get(kind) or () if each["name"] == name)
    statuses = (
        each
        for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for each in state.get(key) or ()
    )
    own: Json = next((each for each in statuses if each["name"] == name), {})
    if not {"running", "terminated"} & (own.get("state") or {}).keys() and not own.get("lastState"):
        return b""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    told = shlex.join(words) if words else "the command of the image"
    if not container.get("command") and words:
        told = f"the command of the image with {told}"
    return f"simulated node {spec['nodeName']}: image {container['image']} would have run {told}\n".encode()


def check_container(wanted: str, pod: Json) -> None:
    spec, name = pod["spec"], pod["metadata"]["name"]
    containers = [
        each["name"]
        for key in ("initContainers", "containers", "ephemeralContainers")
        for each in spec.get(key) or ()
    ]
    if wanted and wanted not in containers:
        raise status.bad_request(f"container {wanted} is not valid for pod {name}")
    if not wanted and len(spec.get("containers") or ()) > 1:
        raise status.bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]"
        )
