"""What all tests share: kept machine code, which of them run in one process, and in which order these are begun."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from highwater.checker.base.memory import collect_garbage_rarely
from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.native.code import program
from highwater.checker.runner.kept import CI
from highwater.checker.scenarios import model_key
from tests import recordings
from tests.slow import without_reason

# No test is decided by how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

TOGETHER = {
    "tests/spark/": "Spark",
    "tests/states/": "Spark",  # to start it costs more than any of the tests
    "tests/replication/test_defects.py": "defects",
    "tests/docs/": "defects",  # both ask for the same searches
    "tests/conform/": "Kafka",  # unpacked once
}
"""Folders and files whose tests run in one process, and what they share."""

APART = (
    "tests/docs/test_generated_pages.py::test_page_is_up_to_date",
    "tests/docs/test_generated_pages.py::test_a_row",
    "tests/solver/test_data_path_proofs.py",
    "tests/solver/test_induction.py",
    "tests/solver/test_truncation_proofs.py",
    "tests/solver/test_gallery.py",
    "tests/native/test_agreement.py::test_engines_agree_on_every_scenario",
    "tests/traces/metadata/test_sensitivity.py",
)
"""Tests that are long and share nothing: each may run anywhere."""

FIRST = (*TOGETHER, "tests/docs/", "tests/solver/", "tests/traces/", "tests/replication/", "tests/gate/")
"""Begun first, so that no process has a long one left when the others are done."""


BEGIN, CROWDED = program._BEGIN, program._CROWDED
"""Where better code is begun outside of tests, alone and beside other searches."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--kafka`` names a Kafka release or build for the tests of ``conform``."""
    parser.addoption("--kafka", metavar="DIR", help="an unpacked Kafka release, or a checkout that is built")


def pytest_configure(config: pytest.Config) -> None:
    """Tests, and what they start, keep their code in the checkout: not in the user's own cache, nor from it."""
    recordings.refuse_without()
    os.environ.pop("COLUMNS", None)  # pytest-xdist sets it in its workers, and output would be folded
    place = config.rootpath / ".pytest_cache" / "code"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    collect_garbage_rarely()
    os.environ[code_cache.VARIABLE] = str(place)
    # Searches are small here: better code comes when most are done. tests/native/test_beside.py has it made.
    program._BEGIN = program._CROWDED = 0
    # Tests change the code that is traced: what was found out about it is not kept. tests/native/test_kept.py keeps it.
    model_key.named = False
    # No result is reused, also in processes that tests start. tests/native/test_reuse.py and its planted changes reuse.
    os.environ[CI] = "1"
    # Spark's sessions are short here: what a JVM compiles with more effort it uses no more.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # What tests keep need not outlive the machine, and on a busy disk waiting for it is most of their time.
    os.fsync = lambda fd: None
    # In the background of a shell Ctrl-C is ignored, and so it is by what tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse slow tests without a reason; where there are several processes, put in order what they begin with."""
    if wrong := without_reason(items):
        raise pytest.UsageError(f"marked slow without a reason: {', '.join(wrong)}; see tests/slow.py")
    if config.pluginmanager.hasplugin("xdist"):
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    return next((turn for turn, place in enumerate(FIRST) if item.nodeid.startswith(place)), len(FIRST))


def group(test: str) -> str:
    """What runs in one process with a test: those of its file, as what they share is made once; or as TOGETHER says."""
    if test.startswith(APART):
        return test
    file = test.split("::", maxsplit=1)[0]
    return next((what for place, what in TOGETHER.items() if file.startswith(place)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Processes take whole groups. xdist's marks of groups do nothing with pytest 9.2: they go into a test's name."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)
