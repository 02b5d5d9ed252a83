"""The ConfigMaps and Secrets that the variables of a container name."""

from __future__ import annotations

from collections.abc import Mapping

from quarterdeck.api.k8s import ConfigMap, Secret
from quarterdeck.client import Client
from quarterdeck.cluster.agent.environment.variable import References
from quarterdeck.cluster.agent.record.view import AnyContainer
from quarterdeck.errors import NotFound


async def read_references(client: Client, namespace: str, container: AnyContainer) -> References:
    """The objects that a container's variables name."""
    config_maps: set[str] = set()
    secrets: set[str] = set()
    for source in container.env_from:
        if source.config_map_ref:
            config_maps.add(source.config_map_ref.name)
        if source.secret_ref:
            secrets.add(source.secret_ref.name)
    for variable in container.env:
        origin = variable.value_from
        if origin and origin.config_map_key_ref:
            config_maps.add(origin.config_map_key_ref.name)
        if origin and origin.secret_key_ref:
            secrets.add(origin.secret_key_ref.name)
    maps: dict[str, Mapping[str, str] | None] = {}
    for name in config_maps:
        try:
            maps[name] = dict((await client.get(ConfigMap, name, namespace)).data)
        except NotFound:
            maps[name] = None
    hidden: dict[str, Mapping[str, str] | None] = {}
    for name in secrets:
        try:
            data = (await client.get(Secret, name, namespace)).data
            hidden[name] = {key: value.decode(errors="surrogateescape") for key, value in data.items()}
        except NotFound:
            hidden[name] = None
    return References(maps, hidden)
