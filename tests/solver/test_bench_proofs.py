"""The part of the benchmarks about proofs: what is asked can be asked, and rows say what came of it."""

from __future__ import annotations

import re

import pytest

from docs.bench import page, proofs
from docs.bench.figures import Run, measure
from docs.bench.proofs import Proof
from tests.slow import slow


@slow("a process for each proof of the benchmark")
def test_each_case_is_a_request_that_can_be_made() -> None:
    for proof in (proofs.BOUNDED, *proofs.INDUCTIONS, *proofs.DIFFERENCES):
        command, *rest = proof.arguments
        with pytest.raises(RuntimeError, match="ended with status 3"):  # a limit was reached: it was accepted
            measure((command, *rest, "--limit-seconds", "0.001"))


def test_a_measured_row_says_what_was_found() -> None:
    asked = Proof("small", ("prove", "truncation/kip-320", "--depth", "5"), "soon")
    run = measure(asked.arguments)
    assert run.processor > 0
    assert run.wall > 0
    row = proofs._row(asked, [run])
    assert re.match(r"\| small \| holds; to depth 5 \d+\.\d s \| \d+\.\d s \| ", row), row
    assert row.endswith("| soon |")
    sums = proofs._sums(
        [[Run(1.0, 2.0, 9, []), Run(3.0, 4.0, 9, [])], [Run(5.0, 6.0, 8, []), Run(7.0, 8.0, 10, [])]]
    )
    assert sums == [Run(6.0, 8.0, 9, []), Run(10.0, 12.0, 10, [])]


def test_a_part_that_is_measured_alone_replaces_itself() -> None:
    text = "# Benchmarks\n\nwords\n\n## One\n\nold\n\n## Two\n\nkept\n"
    assert page.with_section(text, "## One", "## One\n\nnew\n") == text.replace("old", "new")
    assert page.with_section(text, "## Two", "## Two\n\nnew\n") == text.replace("kept", "new")
    assert page.with_section(text, "## Three", "## Three\n\nmore\n") == text + "\n## Three\n\nmore\n"
