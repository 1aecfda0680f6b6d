"""Shared pytest configuration: caches, environment, and which tests share a worker process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from highwater.checker.base.memory import collect_garbage_rarely
from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.native import program
from highwater.checker.runner import CI
from highwater.checker.scenarios import model_key
from tests import kafka_release, recordings
from tests.slow import without_reason
from tests.transcript import Transcript

# No test fails because the machine is busy.
settings.register_profile("untimed", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("untimed")

TOGETHER = {
    "tests/spark/": "Spark",
    "tests/states/": "Spark",  # starting Spark costs more than any of its tests
    "tests/replication/test_defects.py": "defects",
    "tests/docs/": "defects",  # both run the same searches
    "tests/conform/": "Kafka",  # its program starts once
}
"""Folders and files to the group of tests that run in one process."""

APART = (
    "tests/docs/test_generated_pages.py::test_page_is_up_to_date",
    "tests/docs/test_generated_pages.py::test_a_row",
    "tests/solver/test_data_path_proofs.py",
    "tests/solver/test_induction.py",
    "tests/solver/test_bounded.py",
    "tests/native/test_search.py::test_engines_agree_on_every_scenario",
    "tests/traces/metadata/test_sensitivity.py",
)
"""Long tests that share nothing with others: each can run in any process."""

INTEGRATION = (
    "tests/conform/",
    "tests/packaging/",
    "tests/pages/",
    "tests/spark/",
    "tests/states/",
    "tests/traces/test_page_drawn.py",
)
"""Folders and files whose tests start Spark, Kafka's code, a browser or pip."""

FIRST = (*TOGETHER, "tests/docs/", "tests/solver/", "tests/traces/", "tests/replication/", "tests/gate/")
"""Groups that start first: long ones must not be left for the end."""


BEGIN, CROWDED = program._BEGIN, program._CROWDED
"""The product's own thresholds, alone and with other searches running, for compiling better code."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kafka", metavar="VERSION|DIR", help="a version of Kafka, an unpacked release, or a built checkout"
    )
    parser.addoption(
        "--renew", action="store_true", help="replace pinned texts, instead of comparing with them"
    )


@pytest.fixture
def pinned(request: pytest.FixtureRequest) -> Transcript:
    """The pinned texts of the test's folder."""
    return Transcript(request.path, renews=request.config.getoption("--renew"))


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Path:
    """The directory of the Kafka that ``--kafka`` names, else of the release that the tests fetch."""
    return kafka_release.kafka(pytestconfig.getoption("--kafka"))


def pytest_configure(config: pytest.Config) -> None:
    """Point caches at the checkout, and set what makes tests fast and repeatable."""
    recordings.refuse_without()
    os.environ.pop("COLUMNS", None)  # pytest-xdist sets it in its workers, and output would be folded
    place = config.rootpath / ".pytest_cache" / "code"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    collect_garbage_rarely()
    os.environ[code_cache.VARIABLE] = str(place)
    # Searches are small here: do not compile optimized code until most are done (tests/native/test_beside.py
    # does).
    program._BEGIN = program._CROWDED = 1 << 62
    # Tests change traced code, so the cache by model key is off (tests/native/test_kept.py turns it on).
    model_key.named = False
    # No result is reused, in subprocesses either (tests/native/test_reuse*.py reuse results).
    os.environ[CI] = "1"
    # Spark's sessions are short here: the JVM's second compiler does not pay.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # Test files need not survive a power failure, and on a busy disk fsync takes most of the time.
    os.fsync = lambda fd: None
    # A background shell ignores Ctrl-C, and every process that tests start and interrupt would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest selects tests by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse slow marks without a reason, and mark the tests of INTEGRATION. With xdist, sort the tests by FIRST."""
    for item in items:
        if item.nodeid.startswith(INTEGRATION):
            item.add_marker("integration")
    if wrong := without_reason(items):
        raise pytest.UsageError(f"marked slow without a reason: {', '.join(wrong)}; see tests/slow.py")
    if config.pluginmanager.hasplugin("xdist"):
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    return next((turn for turn, place in enumerate(FIRST) if item.nodeid.startswith(place)), len(FIRST))


def group(test: str) -> str:
    """The name of the group whose tests share a process: by default the test's file."""
    if test.startswith(APART):
        return test
    file = test.split("::", maxsplit=1)[0]
    return next((what for place, what in TOGETHER.items() if file.startswith(place)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Workers take whole groups. (With pytest 9.2, xdist_group marks only change a test's name.)"""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)
