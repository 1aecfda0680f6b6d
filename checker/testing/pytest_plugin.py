"""The pytest plugin. ``--highwater`` or ``highwater = true`` in the ini file turns it on.

The entry point names this module, so every pytest of an environment imports it. It adds the options, and imports the
other modules only if the plugin is on.
"""

from __future__ import annotations

import argparse

import pytest


def _number(text: str) -> int:
    """Parse a whole number from 1 on, for argparse."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    """Parse a number of seconds above 0, for argparse."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options to pytest; they mean what they do in ``highwater check``."""
    group = parser.getgroup("highwater", "Highwater: scenarios as tests")
    group.addoption("--highwater", action="store_true", help="collect *.scenario.toml and give the fixtures")
    group.addoption("--highwater-engine", metavar="NAME", help="native (default) or interpreter")
    group.addoption("--highwater-workers", type=_number, metavar="N", help="threads of the native engine")
    group.addoption("--highwater-limit-states", type=_number, metavar="N", help="stop after so many states")
    group.addoption(
        "--highwater-limit-seconds", type=_seconds, metavar="S", help="stop after so many seconds"
    )
    group.addoption("--highwater-profile", metavar="NAME", help="use this profile's rules")
    group.addoption(
        "--highwater-rule", action="append", default=[], metavar="NAME=on|off", help="switch a rule"
    )
    group.addoption(
        "--highwater-set", action="append", default=[], metavar="NAME=VALUE", help="set a parameter"
    )
    parser.addini("highwater", "collect *.scenario.toml and give the fixtures", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Load the other modules of the plugin if it is on."""
    if config.getoption("--highwater") or config.getini("highwater"):
        from highwater.checker.testing import plugin

        config.pluginmanager.register(plugin, "highwater-plugin")
