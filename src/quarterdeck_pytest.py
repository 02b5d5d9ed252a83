"""The pytest plugin: async tests on virtual time, and fixtures for clusters. Installing the package loads it.

    @pytest.mark.cluster(crds=[Widget])
    async def test_widgets_get_config_maps(cluster, manager):
        manager.add(manager.controller(Widget).build(reconcile))
        await cluster.start(manager)
        await cluster.client.create(Widget(...))
        await run_until_idle(manager)

Fixtures: ``cluster``, ``manager`` (on that cluster, not started), ``client`` (the cluster's), ``recorder``
(the events of ``manager``), ``clock``. Fixtures of your own may be ``async`` if they are of one test each.
``kubeconfig`` is for synchronous tests with any client: the file of a cluster that listens.

An ``async`` test is run by this plugin if it uses one of these fixtures or is marked ``virtual_time`` or
``real_time``; with ``quarterdeck_async = true`` in the configuration, every one is. Others are left to other
plugins. Time is virtual unless the test is marked ``real_time``; of several marks the closest counts. When a
test has passed, nothing may be left of it: no task, no socket, no thread, no open watch.

pytest imports this module at every start wherever the package is installed, so it imports nothing of it
before a test needs it; that is why it lies beside the package.
"""

import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from quarterdeck.client import Client
    from quarterdeck.runtime import Manager
    from quarterdeck.runtime.loop.clock import LoopClock
    from quarterdeck.testing import EventLog, TestCluster
    from quarterdeck.testing.asyncrun import Run

FIXTURES: Final = frozenset({"cluster", "manager", "client", "recorder", "clock"})
REAL_LIMIT: Final = 60.0

_RUN: "Final[pytest.StashKey[Run]]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """One setting: whether all async tests are ours."""
    parser.addini(
        "quarterdeck_async", "run every async test with quarterdeck.testing", type="bool", default=False
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marks."""
    for line in (
        "virtual_time(limit=seconds): the async test runs on virtual time, which is the default",
        "real_time(limit=seconds): the async test runs in real time",
        "cluster(**options): how to make the cluster of the test; see quarterdeck.testing.TestCluster",
    ):
        config.addinivalue_line("markers", line)


def _is_ours(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(item.obj):
        return False
    return (
        bool(item.config.getini("quarterdeck_async"))
        or any(item.iter_markers("virtual_time"))
        or any(item.iter_markers("real_time"))
        or any(_is_our_fixture(item, name) for name in FIXTURES.intersection(item.fixturenames))
    )


def _is_our_fixture(item: pytest.Function, name: str) -> bool:
    """Whether a fixture of this name is ours, or builds on ours: others have clients and clocks, too."""
    chain = item._fixtureinfo.name2fixturedefs.get(name, ())
    return bool(chain) and all(
        name in fixture.argnames or fixture.func.__module__ == __name__ for fixture in chain
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Make the loop before any fixture needs it."""
    if not _is_ours(item):
        return
    mark = next((mark for mark in item.iter_markers() if mark.name in ("real_time", "virtual_time")), None)
    is_real = mark is not None and mark.name == "real_time"
    limit = REAL_LIMIT if is_real else None
    if mark is not None:
        limit = mark.kwargs.get("limit", limit)
    from quarterdeck.testing.asyncrun import Run

    item.stash[_RUN] = Run("real" if is_real else "virtual", limit)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Run async fixtures on the loop of their test."""
    function = fixturedef.func
    if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        return (yield)
    run = request.node.stash.get(_RUN, None) if isinstance(request.node, pytest.Function) else None
    if run is None:
        if function.__module__ == __name__:
            raise pytest.UsageError(f"the fixture {fixturedef.argname} is for async tests")
        return (yield)
    if inspect.ismethod(function) and request.instance is not None:
        function = function.__func__.__get__(request.instance)

    def on_loop(**arguments: Any) -> Generator[Any, None, None]:
        yield from run.fixture(function, arguments)

    original, fixturedef.func = fixturedef.func, on_loop  # type: ignore[misc]  # for this call only
    try:
        return (yield)
    finally:
        fixturedef.func = original  # type: ignore[misc]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test."""
    run = pyfuncitem.stash.get(_RUN, None)
    if run is None:
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    run.test(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Close the loop when the fixtures are gone, and look for leaks."""
    try:
        return (yield)
    finally:
        run = item.stash.get(_RUN, None)
        if run is not None:
            del item.stash[_RUN]
            left = run.close()
            if left:
                pytest.fail("left behind:\n  " + "\n  ".join(left), pytrace=False)


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> "AsyncIterator[TestCluster]":
    """A fresh cluster; ``@pytest.mark.cluster(crds=[…])`` says how to make it."""
    from quarterdeck.testing import TestCluster

    async with TestCluster(**_options(request)) as made:
        yield made


@pytest.fixture
def kubeconfig(request: pytest.FixtureRequest) -> "Iterator[Path]":
    """The kubeconfig of a fresh cluster that listens on this machine, for tests with any client."""
    from quarterdeck.testing import served_kubeconfig

    with served_kubeconfig(**_options(request)) as path:
        yield path


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("cluster"))):
        options.update(mark.kwargs)
    return options


@pytest.fixture
def client(cluster: "TestCluster") -> "Client":
    """The administrator of the cluster."""
    return cluster.client


@pytest.fixture
def recorder() -> "EventLog":
    """The events that ``manager`` records."""
    from quarterdeck.testing import EventLog

    return EventLog()


@pytest.fixture
def manager(cluster: "TestCluster", recorder: "EventLog") -> "Manager":
    """A manager on the cluster, not started: see ``TestCluster.start`` and ``TestCluster.serving``."""
    return cluster.manager(recorder=recorder)


@pytest.fixture
def clock() -> "LoopClock":
    """The time of the test: ``await clock.sleep(3600)`` lets an hour pass."""
    from quarterdeck.runtime.loop.clock import LoopClock

    return LoopClock()
