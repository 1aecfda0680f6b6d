"""One small scenario of the truncation protocol, and its explorer session."""

from __future__ import annotations

import pytest

from highwater.checker.explore.session import Answers
from highwater.checker.scenarios.request import Request, asked


@pytest.fixture(scope="session")
def request_() -> Request:
    return asked("truncation/kip-101", parameters={"max_records": 1})


@pytest.fixture(scope="session")
def views(request_: Request) -> Answers:
    return Answers(request_)
