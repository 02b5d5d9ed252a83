"""Get and list."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.document.decoding import go_json_error
from quarterdeck.apiserver.registry.answer import entry_response, list_response, object_response
from quarterdeck.apiserver.registry.read import tablelist, yamllist
from quarterdeck.apiserver.registry.read.documentlist import documents_response
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.registry.selection import Selection
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.storage import Entry, Store
from quarterdeck.wire import fielderror, gostyle
from quarterdeck.wire.fielderror import FieldError
from quarterdeck.wire.gonumber import parse_uint
from quarterdeck.wire.http import Response

_MakeList = Callable[[ApiRequest, Sequence[Entry], Json], Awaitable[Response | None]]
#: how long a request for a revision of the future waits
FUTURE_WAIT = 3.0
_TOKEN_VERSION = "meta.k8s.io/v1"
_BAD_TOKEN = "invalid continue token: continue key is not valid: "

CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


class _Token(msgspec.Struct, omit_defaults=True):
    """The content of a continue token; `start` is the last key served."""

    v: str = ""
    rv: int = 0
    start: str = ""


class Reader:
    """Serves reads from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, request: ApiRequest) -> Response | Any:
        """The object; a coroutine when the answer has to wait for something."""
        info = request.info
        resource = request.resource
        if request.http.raw_query:
            version = request.param("resourceVersion")
            if version and version != "0":
                wanted = parse_rev(version)
                if wanted > self._store.rev:
                    return self._get_later(request, wanted)
        entry = resource.bucket.get(info.namespace if resource.namespaced else "", info.name)
        if entry is None:
            raise resource.not_found(info.name)
        if resource.raw_body(entry) is None and resource.is_custom:
            return self._get_converted(request, entry)
        return entry_response(request, 200, entry)

    async def _get_later(self, request: ApiRequest, rev: int) -> Response:
        if not await self._store.wait_for(rev, FUTURE_WAIT):
            raise too_large_rev(rev, self._store.rev)
        request.http.query.pop("resourceVersion")
        result = self.get(request)
        return result if isinstance(result, Response) else await result

    async def _get_converted(self, request: ApiRequest, entry: Entry) -> Response:
        [obj] = await request.resource.read_many([entry])
        return object_response(request, 200, obj)

    def list(self, request: ApiRequest) -> Response | Any:
        if not request.http.raw_query:
            store = self._store
            resource = request.resource
            entries = list(resource.bucket.scan(request.info.namespace))
            return self._answer(request, entries, {"resourceVersion": str(store.rev)})
        return self._list(request)

    async def _list(self, request: ApiRequest) -> Response:
        entries, metadata = await self.select(request, ListOptions(request))
        result = self._answer(request, entries, metadata)
        return result if isinstance(result, Response) else await result

    async def select(self, request: ApiRequest, options: ListOptions) -> tuple[Sequence[Entry], Json]:
        """What a list answers with, and the metadata of the list."""
        store = self._store
        if options.rev > store.rev and not await store.wait_for(options.rev, FUTURE_WAIT):
            raise too_large_rev(options.rev, store.rev)
        return self._select(request.resource, request.info.namespace, options)

    def _answer(self, request: ApiRequest, entries: Sequence[Entry], metadata: Json) -> Response | Any:
        if request.output.kind == "Table" and tablelist.fits(request):
            return self._answer_made(tablelist.table_response, request, entries, metadata)
        if yamllist.fits(request):
            return self._answer_made(yamllist.yaml_response, request, entries, metadata)
        response = list_response(request, entries, metadata)
        return response if response is not None else documents_response(request, entries, metadata)

    async def _answer_made(
        self, make: _MakeList, request: ApiRequest, entries: Sequence[Entry], metadata: Json
    ) -> Response:
        response = await make(request, entries, metadata)
        return response if response is not None else await documents_response(request, entries, metadata)

    def _select(
        self, resource: Resource, namespace: str, options: ListOptions
    ) -> tuple[Sequence[Entry], Json]:
        store = self._store
        bucket = resource.bucket
        selection = options.selection(resource)
        rev = store.rev
        after: tuple[str, str] | None = None
        if options.token is not None:
            after = bucket.split_key(bucket.prefix + options.token.start)
            rev = options.token.rv if options.token.rv > 0 else store.rev
        elif options.exact:
            rev = options.rev
        if rev < store.compact_rev:  # gone, even where nothing has changed since
            raise self._expired(options)
        state = store.at(bucket, rev)
        metadata: Json = {"resourceVersion": str(rev)}
        if state is bucket and after is None and selection.name and (namespace or not resource.namespaced):
            entry = bucket.get(namespace, selection.name)
            source = iter([entry] if entry is not None else [])
        else:
            source = state.scan(namespace, after)
        if not selection.is_empty:
            source = filter(selection.matches, source)
        if not options.limit:
            return list(source), metadata
        entries = list(islice(source, options.limit))
        if next(source, None) is not None:
            last = entries[-1]
            metadata["continue"] = encode_token(rev, bucket.key(last.namespace, last.name), bucket.prefix)
            if selection.is_empty:
                metadata["remainingItemCount"] = state.count_after(namespace, (last.namespace, last.name))
        return entries, metadata

    def _expired(self, options: ListOptions) -> status.StatusError:
        if options.token is None:
            return status.expired("The resourceVersion for the provided list is too old.")
        error = status.expired(CONTINUE_EXPIRED)
        error.list_metadata = {"continue": encode_token(-1, options.token.start, "")}
        return error


class ListOptions:
    """The query of a list, checked."""

    def __init__(self, request: ApiRequest) -> None:
        self._label_selector = request.param("labelSelector")
        self._field_selector = request.param("fieldSelector")
        version = request.param("resourceVersion")
        match = request.param("resourceVersionMatch")
        token = request.param("continue")
        request.integer("timeoutSeconds")
        limit = request.integer("limit") or 0
        check_list_options(version, match, token, request.flag("sendInitialEvents"), is_watch=False)
        self.limit = max(limit, 0)
        self.rev = parse_rev(version, on_list=True) if version else 0
        self.exact = match == "Exact" or (self.rev > 0 and not match and self.limit > 0)
        self.token: _Token | None = None
        if version == "0" and not token:
            self.limit = 0  # the real server answers "any version" from its cache, which ignores limits
        if token:
            self.token = decode_token(token)
            if version not in ("", "0"):
                raise status.bad_request("specifying resource version is not allowed when using continue")

    def selection(self, resource: Resource) -> Selection:
        return Selection(resource, self._label_selector, self._field_selector)


def check_list_options(
    version: str, match: str, token: str, initial_events: bool | None, *, is_watch: bool
) -> None:
    """The rules of ListOptions that concern several fields at once."""
    errors: list[FieldError] = []
    field = "resourceVersionMatch"
    if is_watch and initial_events is not None:
        if match != "NotOlderThan":
            errors.append(
                fielderror.forbidden(
                    field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                )
            )
            if match:
                errors.append(fielderror.not_supported(field, match, ["NotOlderThan"]))
        if token:
            errors.append(
                fielderror.forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
            )
    elif is_watch:
        if match:
            errors.append(
                fielderror.forbidden(
                    field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                )
            )
            if match != "NotOlderThan":
                errors.append(fielderror.not_supported(field, match, ["NotOlderThan"]))
    else:
        if match:
            if not version:
                errors.append(
                    fielderror.forbidden(
                        field, "resourceVersionMatch is forbidden unless resourceVersion is provided"
                    )
                )
            if token:
                errors.append(
                    fielderror.forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
                )
            if match not in ("Exact", "NotOlderThan"):
                errors.append(fielderror.not_supported(field, match, ["Exact", "NotOlderThan", ""]))
            elif match == "Exact" and version == "0":
                errors.append(
                    fielderror.forbidden(
                        field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
                    )
                )
        if initial_events is not None:
            errors.append(
                fielderror.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
            )
    if errors:
        raise status.invalid("ListOptions", "meta.k8s.io", "", errors)


def parse_rev(text: str, *, on_list: bool = False, on_update: bool = False) -> int:
    if (number := parse_uint(text, 2**64 - 1)) is not None:
        return number
    why = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    shown = gostyle.quote(text)
    message = f"strconv.ParseUint: parsing {shown}: {why}"
    if on_update:
        raise status.plain_error(message)
    message = f"resourceVersion: Invalid value: {shown}: {message}"
    if on_list:
        raise status.bad_request(f"invalid resource version: {message}")
    raise status.plain_error(message)


def too_large_rev(rev: int, current: int) -> status.StatusError:
    return status.StatusError(
        504,
        f"Timeout: Too large resource version: {rev}, current: {current}",
        reason="Timeout",
        details={"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
        retry_after=1,
        headers=[("Retry-After", "1")],
    )


def encode_token(rev: int, key: str, prefix: str) -> str:
    token = _Token(_TOKEN_VERSION, rev, key[len(prefix) :])
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def decode_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        raw = base64.b64decode(padded, altchars=b"-_", validate=True)
    except binascii.Error:
        raise status.bad_request(
            f"{_BAD_TOKEN}illegal base64 data at input byte {_first_bad_byte(text)}"
        ) from None
    try:
        token = msgspec.json.decode(raw, type=_Token)
    except msgspec.DecodeError:
        raise status.bad_request(f"{_BAD_TOKEN}{go_json_error(raw)}") from None
    if token.v != _TOKEN_VERSION:
        raise status.bad_request(f"{_BAD_TOKEN}server does not recognize this encoded version {token.v}")
    if not token.rv:
        raise status.bad_request(
            f"{_BAD_TOKEN}incorrect encoded start resourceVersion (version {_TOKEN_VERSION})"
        )
    if not token.start:
        raise status.bad_request(f"{_BAD_TOKEN}encoded start key empty (version {_TOKEN_VERSION})")
    return token


def _first_bad_byte(text: str) -> int:
    """Where Go's decoder stops reading base64."""
    for index, char in enumerate(text):
        if not (char.isascii() and (char.isalnum() or char in "-_")):
            return index
    return len(text)
