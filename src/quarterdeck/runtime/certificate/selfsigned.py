"""Certificates without a certificate manager: made by ourselves, kept in a Secret.

Whichever replica comes first creates the Secret; the others find it. All of them follow it with a watch of
that one object, so a renewal by one is served by all. Whoever notices that something is due writes it, with
the Secret's version as the lock: who loses the race reads again.

The bundle must reach the objects through which the API server calls us (webhook configurations, CRDs). That
is the work of ``publish``, a function that puts the bundle everywhere and says whether it is there; until
it has succeeded ``check`` fails, so that a replica is not ready before it can be called.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Secret
from quarterdeck.client import Client, WatchEvent
from quarterdeck.client.clock import Clock
from quarterdeck.errors import AlreadyExists, ConfigError, Conflict, Forbidden, NotFound, QuarterdeckError
from quarterdeck.runtime.certificate.material import Life, Material
from quarterdeck.runtime.certificate.pair import KeyPair, UsePair
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.backoff import EndlessBackoff
from quarterdeck.runtime.loop.clock import LoopClock

CHECK_PERIOD: Final = 12 * 3600.0
PUBLISH_PERIOD: Final = 60.0
"""Seconds between two looks at the objects that carry the bundle; somebody may have overwritten them."""
PUBLISH_RETRY: Final = 2.0
WATCH_SECONDS: Final = 300
_FIELDS: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
_log: Final = get_logger(__name__)

Publish = Callable[[bytes], Awaitable[bool]]
"""Puts a bundle (PEM) into the cluster; returns whether it is everywhere now."""


def service_names(service: str, namespace: str, cluster_domain: str = "cluster.local") -> tuple[str, ...]:
    """The names under which a Service is called."""
    return (
        f"{service}.{namespace}.svc",
        service,
        f"{service}.{namespace}",
        f"{service}.{namespace}.svc.{cluster_domain}",
    )


class SelfSigned:
    """A self-made authority and serving certificate in a Secret; a ``CertificateSource``."""

    def __init__(
        self,
        service: str,
        namespace: str,
        *,
        client: Client | None = None,
        secret: str = "",
        dns_names: tuple[str, ...] = (),
        publish: Publish | None = None,
        life: Life | None = None,
        check_period: float = CHECK_PERIOD,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Names of the Service and its namespace decide the certificate's names.

        ``client`` may come later through ``bind``. ``secret`` defaults to ``<service>-tls``; ``dns_names``
        are added to those of the Service. ``check_period`` is the time between two looks at the dates.
        """
        self._namespace: Final = namespace
        self._secret: Final = secret or f"{service}-tls"
        self._names: Final = (*service_names(service, namespace), *dns_names)
        self._client = client
        self._publish: Publish | None = publish
        self._life: Final = life if life is not None else Life()
        self._check_period: Final = check_period
        self._clock: Final = clock if clock is not None else LoopClock()
        self._backoff: Final = EndlessBackoff(base=0.8, cap=30.0, jitter=1.0, clock=self._clock, rng=rng)
        self._material: Material | None = None
        self._published = b""
        self._has_told = False
        self._served: KeyPair | None = None
        self._serving: Final = asyncio.Lock()
        self._wake: Final = asyncio.Event()

    def bind(self, client: Client, publish: Publish | None = None) -> None:
        """Give it the client, and the way to publish the bundle, unless it has them already."""
        self._client = self._client if self._client is not None else client
        self._publish = self._publish if self._publish is not None else publish

    @property
    def bundle(self) -> bytes:
        """The authorities clients must trust, as PEM; empty before the start."""
        return self._material.bundle if self._material is not None else b""

    @property
    def is_published(self) -> bool:
        """Whether the present bundle was seen everywhere it must be."""
        return self._material is not None and self._published == self._material.bundle

    @property
    def has_told(self) -> bool:
        """Whether the objects that exist had the bundle once, or nobody here may write them.

        Unlike ``is_published`` it waits for no object that somebody else has still to create.
        """
        return self._has_told

    async def check(self) -> None:
        """A readiness check: raises until the bundle in the cluster is the one we serve with."""
        if not self.is_published:
            raise ConfigError("the CA bundle of the webhooks is not in the cluster yet")

    @asynccontextmanager
    async def serve(self, use: UsePair) -> AsyncIterator[None]:
        """Serve the Secret's certificate; see ``CertificateSource``."""
        await self._renew()
        await self._serve_newest(use)
        tasks = [
            asyncio.create_task(self._follow(use), name="certificate secret"),
            asyncio.create_task(self._check_regularly(use), name="certificate renewal"),
            asyncio.create_task(self._publish_regularly(), name="certificate bundle"),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew(self) -> None:
        """Read the Secret, and write what is due; ends when there is nothing to write."""
        while True:
            secret = await self._read()
            known = self._adopt(secret) if secret is not None else None
            now = datetime.fromtimestamp(self._clock.time(), UTC)
            wanted = await asyncio.to_thread(self._decide, known, now)
            if wanted is None:
                return
            try:
                self._adopt(await self._write(secret, wanted))
            except (AlreadyExists, Conflict):
                continue  # another replica was faster: see what it wrote
            _log.info("wrote serving certificate", secret=self._secret, namespace=self._namespace)

    def _decide(self, known: Material | None, now: datetime) -> Material | None:
        # In a thread, and not at the top: loading the cryptography takes longer than the rest of a start.
        from quarterdeck.runtime.certificate.rotation import next_material

        return next_material(
            known,
            name=f"{self._secret}.{self._namespace}",
            dns_names=self._names,
            now=now,
            is_published=self.is_published or (self._publish is None and known is not None),
            life=self._life,
        )

    async def _read(self) -> Secret | None:
        try:
            return await self._need_client().get(Secret, self._secret, self._namespace)
        except NotFound:
            return None

    def _adopt(self, secret: Secret) -> Material | None:
        """Remember what a Secret holds; ``None`` if that is nothing of ours."""
        data = secret.data
        is_empty = not any(data.get(field) for field in _FIELDS)
        self._material = None if is_empty else Material(*(bytes(data.get(field, b"")) for field in _FIELDS))
        return self._material

    async def _write(self, before: Secret | None, material: Material) -> Secret:
        """Create the Secret, or replace exactly the one that was read: its version is the lock."""
        parts = (material.bundle, material.authority_key, material.certificate, material.key)
        data = dict(zip(_FIELDS, parts, strict=True))
        client = self._need_client()
        if before is not None:
            return await client.update(before.evolve(data={**before.data, **data}))
        metadata = ObjectMeta(name=self._secret, namespace=self._namespace)
        return await client.create(Secret(metadata=metadata, type="kubernetes.io/tls", data=data))

    async def _serve_newest(self, use: UsePair) -> None:
        """Take the Secret's pair into use unless it is; raises ``ConfigError`` when it cannot be used."""
        # The lock is held while a thread loads the pair: two pairs must not overtake each other.
        async with self._serving:
            material = self._material
            if material is None:
                raise ConfigError(f"Secret {self._namespace}/{self._secret} has no certificate")
            if material.pair != self._served:
                await asyncio.to_thread(use, material.pair)
                self._served = material.pair
            if material.bundle != self._published:
                self._wake.set()

    async def _follow(self, use: UsePair) -> None:
        """Take over what any replica writes: a watch of one object, opened again whenever it ends."""
        while True:
            try:
                await self._watch(use)
                self._backoff.reset()
            except QuarterdeckError as error:
                _log.warning("following the certificate's secret failed", error, secret=self._secret)
                await self._clock.sleep(self._backoff.next())
            except TimeoutError:
                continue  # the stream was silent for longer than the server promised: open it again

    async def _watch(self, use: UsePair) -> None:
        watch = self._need_client().watch(
            Secret,
            namespace=self._namespace,
            fields={"metadata.name": self._secret},
            timeout_seconds=WATCH_SECONDS,
        )
        async with asyncio.timeout(WATCH_SECONDS * 1.1), watch as events:
            # The watch is open before the Secret is read: nothing comes between them, and it needs no version
            # to begin at. That of a Secret which changes once a year is older than what servers remember.
            secret = await self._read()
            if secret is None or self._adopt(secret) is None:
                await self._renew()
            await self._serve_newest(use)
            async for event in events:
                if not isinstance(event, WatchEvent):
                    continue
                if event.type == "DELETED":
                    return  # somebody removed it: the next round makes it anew
                self._adopt(event.object)
                await self._serve_newest(use)

    async def _check_regularly(self, use: UsePair) -> None:
        while True:
            # A rotation waits for the bundle to be everywhere: look again soon after it is.
            await self._clock.sleep(self._check_period if self.is_published else PUBLISH_PERIOD)
            try:
                await self._renew()
                await self._serve_newest(use)
            except (QuarterdeckError, OSError) as error:
                _log.error("renewing the serving certificate failed", error, trace=False)

    async def _publish_regularly(self) -> None:
        while True:
            self._wake.clear()
            wait = PUBLISH_PERIOD
            bundle = self.bundle
            try:
                if self._publish is None or await self._publish(bundle):
                    self._published = bundle
                else:
                    wait = PUBLISH_RETRY
                self._has_told = True
            except QuarterdeckError as error:
                _log.warning("publishing the CA bundle failed", error)
                wait = PUBLISH_RETRY
                self._has_told = self._has_told or isinstance(error, Forbidden)
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _need_client(self) -> Client:
        if self._client is None:
            raise ConfigError("self-signed certificates need a client: pass one, or call bind()")
        return self._client
