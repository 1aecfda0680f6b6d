"""Which version a log is of: code that is newer than what the profiles were read from is told, and no other."""

from __future__ import annotations

import pytest

from highwater.traces.rules.profiles import ELR_VERSION, METADATA_VERSION, newer_than_profiles


@pytest.mark.parametrize(("name", "newest"), [(METADATA_VERSION, 25), (ELR_VERSION, 0)])
def test_a_controller_whose_code_is_newer_than_the_profiles_of_its_level(name: str, newest: int) -> None:
    """At a level of 2024, of which the code that was read supports metadata.version up to 25 and no ELR."""
    features, supported = {METADATA_VERSION: 24}, {METADATA_VERSION: 24, ELR_VERSION: 0}
    assert newer_than_profiles(features, {1: {**supported, name: newest}}) is None
    told = newer_than_profiles(features, {1: supported, 2: {**supported, name: newest + 1}})
    assert told is not None
    assert f"a controller that supports {name} up to {newest + 1} is newer than" in told
