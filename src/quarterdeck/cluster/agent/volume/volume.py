"""The volumes of a pod: made, kept up to date, taken away."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from quarterdeck.api import ObjectMeta, Quantity, Time, value_or
from quarterdeck.api.k8s import (
    ConfigMap,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Secret,
    ServiceAccount,
)
from quarterdeck.api.k8s.authentication import BoundObjectReference, TokenRequest, TokenRequestSpec
from quarterdeck.api.k8s.volume import ProjectedVolumeSource, ServiceAccountTokenProjection, Volume
from quarterdeck.client import Client
from quarterdeck.cluster.agent.record.folder import PodFolder, remove_tree
from quarterdeck.cluster.agent.volume.payload import (
    DEFAULT_MODE,
    Payload,
    VolumeError,
    downward_payload,
    keyed_payload,
    write_payload,
)
from quarterdeck.cluster.image.store import ImageStore
from quarterdeck.errors import NotFound

_TOKEN_SECONDS: Final = 3600
_RENEW_AT: Final = 0.8
_RENEW_AFTER: Final = 24 * 3600.0
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108  the machine's memory file system, by name
_KINDS_OF_FILE: Final[dict[str, tuple[Callable[[int], bool], str]]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


class PodVolumes:
    """The volumes of one pod."""

    def __init__(
        self,
        client: Client,
        pod: Pod,
        folder: PodFolder,
        allocatable: Callable[[], Mapping[str, Quantity]],
        store: ImageStore,
    ) -> None:
        self._client: Final = client
        self._folder: Final = folder
        self._allocatable: Final = allocatable
        self._tokens: Final[dict[tuple[str, str], tuple[str, float]]] = {}
        self._paths: Final[dict[str, Path]] = {}
        self._store: Final = store
        self._held: Final = ExitStack()
        """Images that must not be removed."""
        self._pod = pod

    def path(self, name: str) -> Path:
        """Where a volume is; ``KeyError`` before it was set up."""
        return self._paths[name]

    async def set_up(self, pod: Pod) -> None:
        """Make all volumes. Raises ``VolumeError`` with the volume's name in it."""
        self._pod = pod
        for volume in pod.spec.volumes:
            try:
                self._paths[volume.name] = await self._make(volume)
            except (VolumeError, OSError) as error:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error

    async def refresh(self, pod: Pod) -> None:
        """Bring the files of objects up to date; what cannot be read now stays as it is."""
        self._pod = pod
        for volume in pod.spec.volumes:
            if volume.config_map or volume.secret or volume.projected or volume.downward_api:
                await self._make(volume)

    async def remove(self) -> None:
        """Take away what is not in the pod's folder, and let go of images."""
        self._held.close()
        await asyncio.to_thread(remove_tree, memory_folder(self._folder.uid))

    async def _make(self, volume: Volume) -> Path:
        path = self._folder.volume(volume.name)
        payload = await self._payload(volume)
        if payload is not None:
            await asyncio.to_thread(write_payload, path, payload, owner=self._owner())
            return path
        if volume.empty_dir:
            if volume.empty_dir.medium == "Memory" and _SHARED_MEMORY.is_dir():
                path = memory_folder(self._folder.uid) / volume.name
            await asyncio.to_thread(_make_open_folder, path)
            return path
        if volume.host_path:
            return _host_path(volume.host_path.path, value_or(volume.host_path.type, ""))
        if volume.persistent_volume_claim:
            return await self._claimed(volume.persistent_volume_claim.claim_name)
        if volume.ephemeral:
            return await self._claimed(f"{self._pod.metadata.name}-{volume.name}")
        if volume.image:
            return await asyncio.to_thread(self._image, volume.name, volume.image.reference)
        raise VolumeError(f"volumes of kind {_kind_of(volume)} are not possible on a local node")

    def _image(self, name: str, reference: str) -> Path:
        """The files of an image, which all that use it share, so nobody writes to them. Blocking."""
        if name in self._paths:
            return self._paths[name]
        found = self._store.find(reference)
        if found is None:
            raise VolumeError(
                f'image "{reference}" is not there: nothing is pulled to a local node; '
                "import it from a file with `quarterdeck image import`"
            )
        self._held.enter_context(self._store.held(found))
        return self._store.root(found)

    def _owner(self) -> tuple[int, int] | None:
        """Who gets the files of a pod that runs as somebody else; only root can give them away."""
        context = self._pod.spec.security_context
        if os.geteuid() != 0 or not context:
            return None
        user, group = value_or(context.run_as_user, -1), value_or(context.fs_group, -1)
        return (user, group) if user >= 0 or group >= 0 else None

    async def _claimed(self, name: str) -> Path:
        namespace = self._pod.metadata.namespace
        try:
            claim = await self._client.get(PersistentVolumeClaim, name, namespace)
        except NotFound as error:
            raise VolumeError(f'persistentvolumeclaim "{name}" not found') from error
        if claim.status.phase != "Bound" or not claim.spec.volume_name:
            raise VolumeError(f'persistentvolumeclaim "{name}" is not bound')
        volume = await self._client.get(PersistentVolume, claim.spec.volume_name)
        if volume.spec.host_path:
            return _host_path(volume.spec.host_path.path, value_or(volume.spec.host_path.type, ""))
        if volume.spec.local:
            return _host_path(volume.spec.local.path, "Directory")
        raise VolumeError(f"volume {volume.metadata.name} is no folder of this machine (hostPath or local)")

    async def _payload(self, volume: Volume) -> Payload | None:
        """The files of a volume that is made from objects; None for others."""
        if volume.config_map:
            config = volume.config_map
            data = await self._config_map(config.name, optional=config.optional is True)
            mode = value_or(config.default_mode, DEFAULT_MODE)
            return keyed_payload("config", data, config.items, mode, optional=config.optional is True)
        if volume.secret:
            secret = volume.secret
            data = await self._secret(secret.secret_name, optional=secret.optional is True)
            mode = value_or(secret.default_mode, DEFAULT_MODE)
            return keyed_payload("secret", data, secret.items, mode, optional=secret.optional is True)
        if volume.downward_api:
            downward = volume.downward_api
            mode = value_or(downward.default_mode, DEFAULT_MODE)
            return downward_payload(self._pod, downward.items, mode, self._allocatable())
        if volume.projected:
            return await self._projected(volume.projected)
        return None

    async def _projected(self, projected: ProjectedVolumeSource) -> Payload:
        mode = value_or(projected.default_mode, DEFAULT_MODE)
        made: Payload = {}
        for source in projected.sources:
            if source.config_map:
                config, optional = source.config_map, source.config_map.optional is True
                data = await self._config_map(config.name, optional=optional)
                made |= keyed_payload("config", data, config.items, mode, optional=optional)
            elif source.secret:
                secret, optional = source.secret, source.secret.optional is True
                data = await self._secret(secret.name, optional=optional)
                made |= keyed_payload("secret", data, secret.items, mode, optional=optional)
            elif source.downward_api:
                made |= downward_payload(self._pod, source.downward_api.items, mode, self._allocatable())
            elif source.service_account_token:
                token = await self._token(source.service_account_token)
                made[source.service_account_token.path] = (token.encode(), mode)
            elif source.cluster_trust_bundle or source.pod_certificate:
                raise VolumeError("clusterTrustBundle and podCertificate are not possible on a local node")
        return made

    async def _config_map(self, name: str, *, optional: bool) -> Mapping[str, bytes]:
        try:
            found = await self._client.get(ConfigMap, name, self._pod.metadata.namespace)
        except NotFound as error:
            if optional:
                return {}
            raise VolumeError(f'configmap "{name}" not found') from error
        return {**{key: text.encode() for key, text in found.data.items()}, **found.binary_data}

    async def _secret(self, name: str, *, optional: bool) -> Mapping[str, bytes]:
        try:
            found = await self._client.get(Secret, name, self._pod.metadata.namespace)
        except NotFound as error:
            if optional:
                return {}
            raise VolumeError(f'secret "{name}" not found') from error
        return found.data

    async def _token(self, projection: ServiceAccountTokenProjection) -> str:
        """A token of the pod's account, renewed when most of its time is over."""
        key = (projection.audience, projection.path)
        token, renew_at = self._tokens.get(key, ("", 0.0))
        if time.time() < renew_at:
            return token
        pod = self._pod
        account = ServiceAccount(
            metadata=ObjectMeta(
                name=pod.spec.service_account_name or "default", namespace=pod.metadata.namespace
            )
        )
        seconds = value_or(projection.expiration_seconds, _TOKEN_SECONDS)
        request = TokenRequest(
            spec=TokenRequestSpec(
                audiences=(projection.audience,) if projection.audience else (),
                expiration_seconds=seconds,
                bound_object_ref=BoundObjectReference(
                    kind="Pod", api_version="v1", name=pod.metadata.name, uid=pod.metadata.uid
                ),
            )
        )
        answer = await self._client.subresource("token").create(account, request)
        now = time.time()
        end = answer.status.expiration_timestamp
        life = end.timestamp() - now if isinstance(end, Time) else float(seconds)
        self._tokens[key] = (answer.status.token, now + min(life * _RENEW_AT, _RENEW_AFTER))
        return answer.status.token


def _make_open_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)


def _host_path(text: str, kind: str) -> Path:
    path = Path(text)
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
    elif kind == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    if not path.exists():
        if not kind:  # made as a folder, as a container runtime does
            path.mkdir(parents=True, mode=0o755)
            return path
        raise VolumeError(f"hostPath type check failed: {text} is not a {_KINDS_OF_FILE[kind][1]}")
    if kind:
        check, word = _KINDS_OF_FILE[kind]
        if not check(path.stat().st_mode):
            raise VolumeError(f"hostPath type check failed: {text} is not a {word}")
    return path


def memory_folder(uid: str) -> Path:
    """Where a pod's volumes in memory are."""
    return _SHARED_MEMORY / f"quarterdeck-{os.geteuid()}-{uid}"


def _kind_of(volume: Volume) -> str:
    from quarterdeck.api import to_dict

    return next((key for key in to_dict(volume) if key != "name"), "unknown")
