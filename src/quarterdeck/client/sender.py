"""The way of a call: layers change it, interceptors stand around it, then it goes to the server."""

from collections.abc import Mapping
from typing import Final

from quarterdeck.client.call import Call, Interceptor, Layer, StreamInterceptor, Verb, encode_query
from quarterdeck.client.discovery import RestMapper
from quarterdeck.client.rest import RestClient
from quarterdeck.client.transport import Response, Stream
from quarterdeck.errors import NotFound


class Sender:
    """Sends calls and opens streams."""

    def __init__(
        self,
        rest: RestClient,
        mapper: RestMapper,
        layers: tuple[Layer, ...],
        interceptors: Mapping[Verb, Interceptor],
        stream_interceptor: StreamInterceptor | None,
    ) -> None:
        self.layers: Final = layers
        self.interceptors: Final = dict(interceptors)
        self.stream_interceptor: Final = stream_interceptor
        self._rest: Final = rest
        self._mapper: Final = mapper

    async def send(self, call: Call) -> Response:
        """Send a call through layers and interceptors."""
        for layer in self.layers:
            call = layer(call)
        interceptor = self.interceptors.get(call.verb)
        if interceptor is not None:
            return await interceptor(call, self._send)
        return await self._send(call)

    async def open(self, call: Call) -> Stream:
        """Open a stream through layers and interceptors."""
        for layer in self.layers:
            call = layer(call)
        if self.stream_interceptor is not None:
            return await self.stream_interceptor(call, self._open)
        return await self._open(call)

    async def _send(self, call: Call) -> Response:
        _check_call(call)
        try:
            return await self._rest.request(
                call.method,
                call.path,
                verb=call.verb,
                query=encode_query(call.query),
                headers=call.headers,
                body=call.body,
                timeout=call.timeout,
                lane=call.lane,
            )
        except NotFound as error:
            if not error.details.name:
                # Not the object but the resource is missing: its definition may be gone.
                self._mapper.forget(call.gvk)
            raise

    async def _open(self, call: Call) -> Stream:
        return await self._rest.stream(
            call.method,
            call.path,
            verb=call.verb,
            query=encode_query(call.query),
            headers=call.headers,
            timeout=call.timeout,
        )


def _check_call(call: Call) -> None:
    if call.is_namespaced and not call.namespace and (call.name or call.verb == "create"):
        raise ValueError(f'{call.gvk.kind} "{call.object_name}" is namespaced: give it a namespace')
    if call.verb == "apply" and not call.has_query("fieldManager"):
        raise ValueError("apply needs a field_manager: pass one, or use a field_owner client")
