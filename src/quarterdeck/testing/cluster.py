"""A cluster for one test: the embedded server without sockets, started in milliseconds.

    async with TestCluster(crds=[Widget]) as cluster:
        manager = cluster.manager(plan=FaultPlan.storm(7))
        manager.add(manager.controller(Widget).build(reconcile))
        async with cluster.serving(manager):
            await cluster.client.create(Widget(...))
            await run_until_idle(manager)

It is the real server: authentication, validation, admission and storage are those of ``quarterdeck up``, so
there is no fake to disagree with it. On virtual time (``quarterdeck.testing.run``, the pytest plugin) its
dates and time-outs are virtual too. ``use_existing`` takes a cluster that runs elsewhere instead; then time
must be real.

``client`` is the test's own hand and meets no faults. What is under test gets links of its own, which can be
cut and given fault plans.
"""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from quarterdeck.api import Key, Resource, crd
from quarterdeck.api.manifest import load_documents
from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.apiserver.auth import ADMIN, UserInfo
from quarterdeck.client import Client, Config, Impersonation, InProcessTransport, Observer, Transport
from quarterdeck.client.clock import Clock
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.cache import CacheOptions
from quarterdeck.runtime.contract import Elector, KeyElector, NoRecorder, Recorder, RecorderSource
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.loop.taskerror import unwrapped
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerMetrics, ManagerOptions
from quarterdeck.runtime.operator.install import install_definitions
from quarterdeck.runtime.reconcile.result import Result
from quarterdeck.runtime.webhook import AdmissionWebhook, Converter, WebhookServer
from quarterdeck.testing.fault import FaultPlan
from quarterdeck.testing.leak import Leak
from quarterdeck.testing.link import Link
from quarterdeck.testing.webhook import install_webhooks, serve_webhooks

if TYPE_CHECKING:
    from quarterdeck.cluster.workload import Workloads

Definition: TypeAlias = type[Resource] | Mapping[str, Any] | Path | str
"""A kind: its class, its CustomResourceDefinition, or a file or folder with manifests of some."""


class TestCluster:
    """A cluster to test against; use it with ``async with``.

    - ``crds``: kinds to install before the test begins.
    - ``controllers``: run what every cluster has (garbage collection, namespaces, service accounts …); given
      as ``Workloads`` of ``quarterdeck.cluster``, also what runs Jobs and pods.
    - ``listen``: serve HTTPS on loopback as well; see ``kubeconfig``.
    - ``use_existing``: a cluster that runs already: ``True`` for that of the environment, or its kubeconfig.
    - ``seed``: chance of everything the cluster makes.
    """

    __test__ = False  # pytest: not a class of tests

    def __init__(
        self,
        *,
        crds: Sequence[Definition] = (),
        controllers: "bool | Workloads" = False,
        listen: bool = False,
        use_existing: bool | str | Path = False,
        server: ServerOptions | None = None,
        seed: int = 0,
    ) -> None:
        self._crds: Final = crds
        self._runs_controllers: Final = controllers
        self._listens: Final = listen
        self._config = _existing(use_existing)
        self._server = ApiServer(server) if self._config is None else None
        self._seed: Final = seed
        self._stack: Final = AsyncExitStack()
        self._links: Final[list[Link]] = []
        self._users: Final[list[tuple[str, tuple[str, ...]]]] = []
        """Who the links belong to, in their order."""
        self._client: Client | None = None
        self.clock: Final = LoopClock()
        """The time of the running loop."""

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _start(self) -> None:
        server = self._server
        if server is not None:
            await server.start(listen=self._listens)
            self._stack.push_async_callback(self._stop_server)
            if self._listens:
                with TemporaryDirectory() as directory:
                    self._config = Config.load(self.write_kubeconfig(Path(directory, "kubeconfig")))
        self._stack.push_async_callback(self._close_links)
        self._client = self.link(name="test").client
        await self.install(*self._crds)
        if self._runs_controllers:
            await self._stack.enter_async_context(self._cluster_controllers())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        open_links = [link for link in self._links if link.open_streams]
        if error is None and open_links:
            names = ", ".join(f"{link.name or 'a link'}: {link.open_streams}" for link in open_links)
            raise Leak(f"streams left open ({names})")

    async def _stop_server(self) -> None:
        await self.server.stop()

    async def _close_links(self) -> None:
        for link in self._links:
            await link.aclose()

    @asynccontextmanager
    async def _cluster_controllers(self) -> AsyncIterator[None]:
        from quarterdeck.cluster.controllers import add_controllers

        manager = self.manager(link=self.link(name="cluster"))
        add_controllers(
            manager,
            root_ca=self.server.credentials.authority.certificate_pem,
            sign_token=self.server.sign_token,
            workloads=None if isinstance(self._runs_controllers, bool) else self._runs_controllers,
        )
        async with self.serving(manager):
            yield

    @property
    def server(self) -> ApiServer:
        """The embedded server; raises ``ConfigError`` if the cluster is an existing one."""
        if self._server is None:
            raise ConfigError("the cluster runs elsewhere: there is no embedded server")
        return self._server

    @property
    def client(self) -> Client:
        """The test's own client: the administrator, without faults."""
        if self._client is None:
            raise ConfigError("the cluster has not started: use it with async with")
        return self._client

    @property
    def is_embedded(self) -> bool:
        """Whether the cluster is the embedded server."""
        return self._server is not None

    @property
    def links(self) -> tuple[Link, ...]:
        """All links, in the order they were made; the test's own is the first."""
        return tuple(self._links)

    def link(
        self,
        plan: FaultPlan | None = None,
        *,
        name: str = "",
        user: str = "",
        groups: Iterable[str] = (),
        observer: Observer | None = None,
    ) -> Link:
        """A new line to the cluster, as the administrator or as another user."""
        transport, config = self._way_in(user, tuple(groups))
        link = Link(
            transport,
            plan=plan,
            name=name or user or f"link {len(self._links)}",
            config=config,
            clock=self.clock,
            rng=self._random(),
            observer=observer,
        )
        self._links.append(link)
        self._users.append((user, tuple(groups)))
        return link

    def as_user(self, name: str, *groups: str) -> Client:
        """The cluster as somebody sees it who has no rights but those given by RBAC."""
        return self.link(user=name, groups=groups).client

    def _way_in(self, user: str, groups: tuple[str, ...]) -> tuple[Transport, Config | None]:
        if self._server is not None:
            who = UserInfo(user, groups=groups) if user else ADMIN
            return InProcessTransport(self._server.local(who)), None
        config = self.config
        if user:
            config = config.evolve(impersonate=Impersonation(user, groups=groups))
        return config.transport(), config

    def _random(self) -> random.Random:
        return random.Random(f"{self._seed} {len(self._links)}")  # noqa: S311  jitter, no secret

    @property
    def config(self) -> Config:
        """Settings to reach the cluster over HTTPS, for what connects by itself; see ``write_kubeconfig``."""
        if self._config is None:
            raise ConfigError("the cluster has no socket: make it with listen=True")
        return self._config

    def write_kubeconfig(self, path: Path) -> Path:
        """Write the administrator's kubeconfig, for other processes; needs ``listen=True``."""
        if not self._listens:
            raise ConfigError("the cluster has no socket: make it with listen=True")
        self.server.write_kubeconfig(path)
        return path

    async def install(self, *definitions: Definition) -> None:
        """Install kinds and wait until they are served; raises ``ConfigError`` if they are not in time.

        Classes of one group and kind are versions of it, of which exactly one is stored.
        """
        versions: dict[tuple[str, str], list[type[Resource]]] = {}
        documents: list[Mapping[str, Any]] = []
        for each in definitions:
            if isinstance(each, type):
                versions.setdefault((each.type_info.group, each.type_info.kind), []).append(each)
            else:
                documents += documents_of(each)
        documents += [crd(*classes) for classes in versions.values()]
        await install_definitions(self.client, *documents)

    def backup(self, directory: Path) -> None:
        """Copy the state as it is now, as an administrator does; the server must have a ``data_dir``."""
        source = self._data_dir()
        directory.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(source / "state.db")) as database:
            database.execute("VACUUM INTO ?", (str(directory / "state.db"),))
        copytree(source / "pki", directory / "pki")

    async def restore(self, directory: Path) -> None:
        """Go on with a backup at the same address: what came after it never was, and what was open ends."""
        self._data_dir()
        old = self.server
        self._server = ApiServer(replace(old.options, data_dir=directory))
        await self._server.start(listen=False)
        for link, (user, groups) in zip(self._links, self._users, strict=True):
            link.move_to(self._way_in(user, groups)[0])
            link.end_watches(reset=True)
        await old.stop()

    def _data_dir(self) -> Path:
        found = self.server.options.data_dir
        if found is None or self._listens:
            raise ConfigError("backups need server=ServerOptions(data_dir=...) and listen=False")
        return found

    async def compact(self) -> None:
        """Let the server forget its history: a watch that resumes from an earlier version gets a 410."""
        await self.server.store.forget_history()

    async def serve_webhooks(
        self,
        *webhooks: AdmissionWebhook,
        conversions: Sequence[Converter] = (),
        name: str = "test-webhooks",
    ) -> WebhookServer:
        """Serve handlers on loopback until the cluster ends, and tell the API server about them."""
        served = await self._stack.enter_async_context(serve_webhooks(*webhooks, conversions=conversions))
        await served.register(self.client, name)
        return served.server

    async def install_webhooks(self, manifests: Definition, url: str, ca_bundle: bytes) -> None:
        """Install webhook configurations with their services rewritten to ``url`` and its authority."""
        await install_webhooks(self.client, documents_of(manifests), url, ca_bundle)

    def manager(
        self,
        *,
        link: Link | None = None,
        plan: FaultPlan | None = None,
        cache: CacheOptions | None = None,
        elector: Elector | KeyElector | None = None,
        webhooks: WebhookServer | None = None,
        metrics: ManagerMetrics | None = None,
        recorder: Recorder | RecorderSource | None = None,
        options: ManagerOptions | None = None,
        clock: Clock | None = None,
    ) -> Manager:
        """A manager with a link of its own (``plan`` disturbs it), a known seed and no event recording."""
        chosen = link if link is not None else self.link(plan, name=f"manager {len(self._links)}")
        return Manager(
            chosen.client,
            cache=cache,
            leader_election=elector,
            webhooks=webhooks,
            metrics=metrics,
            recorder=recorder if recorder is not None else NoRecorder(),
            options=options if options is not None else ManagerOptions(watch_loop=False),
            clock=clock if clock is not None else self.clock,
            rng=self._random(),
        )

    @asynccontextmanager
    async def serving(self, *managers: Manager) -> AsyncIterator[None]:
        """Run managers for the time of a block; if one of them fails, the block fails with its error."""
        with unwrapped():
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_serve(manager), name="manager") for manager in managers]
                try:
                    yield
                finally:
                    for manager in managers:
                        manager.request_stop()
                    await asyncio.wait(tasks)

    async def start(self, *managers: Manager) -> None:
        """Run managers until the cluster ends; an error of theirs is raised then."""
        await self._stack.enter_async_context(self.serving(*managers))

    async def reconcile_once(self, controller: Controller[Any], key: Key) -> Result | None:
        """Run a controller's reconciler once for a key, with filled caches; raises what it raises."""
        manager = self.manager()
        manager.add(controller)
        with unwrapped():
            async with manager, asyncio.TaskGroup() as group:
                caching = group.create_task(manager.cluster.run())
                try:
                    await _filled(manager)
                    return await controller.reconcile_once(key)
                finally:
                    caching.cancel()


async def _serve(manager: Manager) -> None:
    async with manager:
        await manager.serve()


async def _filled(manager: Manager) -> None:
    await asyncio.sleep(0)
    for informer in manager.cache.informers:
        while not (informer.has_synced or informer.health.is_blocked):  # noqa: ASYNC110  either of two
            await asyncio.sleep(0.001)


def _existing(which: bool | str | Path) -> Config | None:
    if which is False:
        return None
    return Config.load() if which is True else Config.load(which)


def documents_of(definition: Definition) -> list[dict[str, Any]]:
    """The manifests that a definition stands for."""
    if isinstance(definition, type):
        return [crd(definition)]
    if isinstance(definition, Mapping):
        return [dict(definition)]
    path = Path(definition)
    files = sorted(each for each in path.rglob("*.y*ml")) if path.is_dir() else [path]
    return [document for file in files for document in load_documents(file.read_bytes())]
