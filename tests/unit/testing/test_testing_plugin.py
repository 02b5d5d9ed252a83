"""The pytest plugin, as a project that installs the package sees it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from quarterdeck.testing import Endless, VirtualLoop, run

pytest_plugins = ("pytester",)

Outcome = Callable[..., pytest.RunResult]


@pytest.fixture
def outcome(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """Runs a test module with the plugin, without other plugins and this repository's settings."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(source: str, *options: str, **files: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=source, **files)
        return pytester.runpytest_inprocess("-p", "quarterdeck_pytest", "-p", "no:cacheprovider", *options)

    return run


def test_fixtures_run_async_tests_on_virtual_time(outcome: Outcome) -> None:
    result = outcome(
        """
        import asyncio
        from quarterdeck.api.k8s.core import Namespace

        async def test_cluster(cluster, client, manager, recorder, clock):
            before = clock.monotonic()
            await clock.sleep(36_000)
            assert clock.monotonic() - before == 36_000
            assert clock.time() == 1893456000 + 36_000
            assert any(n.metadata.name == "default" for n in await client.list(Namespace))
            assert manager.client is not client and recorder.events == []
        """
    )
    result.assert_outcomes(passed=1)


def test_async_fixtures_of_ones_own_live_on_the_loop_of_the_test(outcome: Outcome) -> None:
    result = outcome(
        """
        import asyncio, pytest

        log = []

        @pytest.fixture
        async def group():
            async with asyncio.timeout(100), asyncio.TaskGroup() as group:
                log.append(asyncio.get_running_loop())
                yield group
            log.append("down")

        @pytest.fixture
        async def plain(group):
            await asyncio.sleep(1)
            return 7

        class TestMethods:
            value = 3

            @pytest.fixture
            async def mine(self):
                self.value = 4
                yield self

            async def test_loop(self, group, plain, mine, clock):
                assert log == [asyncio.get_running_loop()]
                assert plain == 7 and self.value == 4
                group.create_task(asyncio.sleep(10))

        def test_after():
            assert log[1] == "down"
        """
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("asyncio.get_running_loop().create_task(asyncio.sleep(9), name='sleeper')", "task sleeper at *"),
        ("globals().update(kept=socket.socket())", "socket:*"),
        ("threading.Thread(target=time.sleep, args=(1,), name='idler').start()", "thread idler"),
    ],
    ids=["task", "socket", "thread"],
)
def test_what_a_test_leaves_behind_is_an_error(outcome: Outcome, body: str, named: str) -> None:
    result = outcome(
        f"""
        import asyncio, socket, threading, time

        async def test_leak(clock):
            {body}

        def test_tidy():
            if "kept" in globals():
                kept.close()
        """
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*left behind:", f"*{named}"])


def test_an_open_watch_is_an_error(outcome: Outcome) -> None:
    result = outcome(
        """
        from quarterdeck.api.k8s.core import ConfigMap

        async def test_leak(cluster):
            await cluster.client.watch(ConfigMap).__aenter__()
        """
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*Leak: streams left open (test: 1)"])


def test_a_failed_test_is_a_failure_and_nothing_else(outcome: Outcome) -> None:
    result = outcome(
        """
        import asyncio

        async def test_fails(cluster):
            asyncio.get_running_loop().create_task(asyncio.sleep(9))
            assert 1 == 2
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])


def test_marks_choose_time_limit_and_cluster(outcome: Outcome) -> None:
    result = outcome(
        """
        import asyncio, time, pytest
        from quarterdeck.testing import VirtualLoop

        pytestmark = pytest.mark.cluster(seed=1)

        @pytest.mark.real_time
        async def test_real():
            assert not isinstance(asyncio.get_running_loop(), VirtualLoop)

        @pytest.mark.virtual_time
        async def test_virtual():
            assert isinstance(asyncio.get_running_loop(), VirtualLoop)

        @pytest.mark.virtual_time(limit=5)
        async def test_limit():
            await asyncio.sleep(6)

        @pytest.mark.virtual_time
        async def test_deadlock():
            await asyncio.get_running_loop().create_future()

        @pytest.mark.cluster(controllers=True)
        async def test_both(cluster):
            assert len(cluster.links) == 2
        """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(["*TimeoutError*", "*Deadlock: nothing can wake these tasks:*"])


def test_async_tests_of_others_are_left_alone_unless_all_are_ours(outcome: Outcome) -> None:
    source = """
        import pytest

        @pytest.fixture
        def client():
            return "somebody else's"

        async def test_bare():
            pass

        async def test_own_fixture(client):
            assert client == "somebody else's"
        """
    outcome(source).assert_outcomes(failed=2)
    outcome(source, "-o", "quarterdeck_async=true").assert_outcomes(passed=2)


def test_a_fixture_that_builds_on_ours_makes_the_test_ours(outcome: Outcome) -> None:
    result = outcome(
        """
        import pytest

        @pytest.fixture
        async def cluster(cluster):
            cluster.mine = True
            yield cluster

        async def test_mine(cluster):
            assert cluster.mine
        """
    )
    result.assert_outcomes(passed=1)


def test_plain_tests_are_told_that_the_cluster_is_async(outcome: Outcome) -> None:
    result = outcome("def test_plain(cluster): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the fixture cluster is for async tests"])


def test_broken_fixtures_are_errors(outcome: Outcome) -> None:
    result = outcome(
        """
        import pytest

        @pytest.fixture
        async def refuses():
            raise ValueError("no")
            yield

        @pytest.fixture
        async def yields_twice():
            yield 1
            yield 2

        async def test_a(refuses, clock): pass
        async def test_b(yields_twice, clock): pass
        """
    )
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*ValueError: no*", "*an async fixture must yield once*"])


def test_the_package_announces_the_plugin() -> None:
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"quarterdeck": "quarterdeck_pytest"}


def test_the_tests_of_the_documentation_pass(outcome: Outcome) -> None:
    import re
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    tests = [block for block in blocks if "async def test_" in block]
    assert len(tests) == 3
    files = {f"test_page_{number}": block for number, block in enumerate(tests)}
    outcome("", "--strict-markers", **files).assert_outcomes(passed=7)


def test_a_test_that_works_without_end_is_stopped_however_busy_the_machine_is() -> None:
    loop = VirtualLoop(work_limit=0.2)

    async def spin() -> None:
        for second in itertools.count():
            await asyncio.sleep(second)

    try:
        with pytest.raises(Endless, match="still going on after"):
            loop.run_until_complete(spin())
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.work_deadline = float("inf")
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()


def test_a_timer_is_never_early() -> None:
    """Who waits for the rest of a pause would find a rest again and again while the clock stands still."""

    async def wait_for_both() -> list[float]:
        loop = asyncio.get_running_loop()
        early: list[float] = []
        start = loop.time()

        def ring(when: float) -> None:
            early.append(max(0.0, when - loop.time()))

        for when in (start + 0.1, start + 0.1 + 5e-10):
            loop.call_at(when, ring, when)
        await asyncio.sleep(0.2)
        return early

    assert run(wait_for_both(), work_limit=1.0) == [0.0, 0.0]


def test_a_wait_moves_the_clock_however_short_it_is() -> None:
    async def wait() -> bool:
        loop = asyncio.get_running_loop()
        start = loop.time()
        await asyncio.sleep(1e-20)
        return loop.time() > start

    assert run(wait(), work_limit=1.0)


def test_starting_pytest_imports_nothing_of_the_package(outcome: Outcome) -> None:
    import subprocess
    import sys

    code = (
        "import sys, quarterdeck_pytest; print([m for m in sys.modules if m.split('.')[0] == 'quarterdeck'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_synchronous_test_gets_a_kubeconfig_of_a_cluster_that_listens(outcome: Outcome) -> None:
    result = outcome(
        """
        import json, ssl, urllib.request, base64, tempfile
        import pytest, yaml
        from quarterdeck.api import Model, Resource

        class Widget(Resource, group="example.io", version="v1"):
            pass

        class OldWidget(Resource, group="example.io", version="v1alpha1", kind="Widget", storage=False):
            pass

        @pytest.mark.cluster(crds=[Widget, OldWidget])
        def test_it(kubeconfig):
            document = yaml.safe_load(kubeconfig.read_text())
            cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
            context = ssl.create_default_context(cadata=authority)
            with tempfile.NamedTemporaryFile() as file:
                file.write(base64.b64decode(user["client-certificate-data"]))
                file.write(base64.b64decode(user["client-key-data"]))
                file.flush()
                context.load_cert_chain(file.name)
            url = cluster["server"] + "/apis/example.io"
            with urllib.request.urlopen(url, context=context) as answer:
                versions = json.load(answer)["versions"]
            assert [each["version"] for each in versions] == ["v1", "v1alpha1"]

        def test_what_cannot_start_says_so():
            from quarterdeck.errors import SchemaError
            from quarterdeck.testing import served_kubeconfig
            with pytest.raises(SchemaError, match="stor"):
                with served_kubeconfig(crds=[OldWidget]):
                    pass
        """
    )
    result.assert_outcomes(passed=2)
