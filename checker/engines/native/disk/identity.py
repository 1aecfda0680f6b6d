"""What a kept search is of: a checkpoint of anything else is refused, with what differs."""

from __future__ import annotations

import hashlib
from typing import Any

from highwater.checker.base.problems import InputError
from highwater.checker.engines.native.disk.checkpoint import MANIFEST
from highwater.checker.engines.native.search_state import SearchState
from highwater.checker.engines.native.text.runtime import Runtime
from highwater.checker.engines.native.text.symmetry import canonical


def model_of(run: SearchState) -> dict[str, Any]:
    """What a search is of, for people."""
    model, options = run.program.model, run.options
    return {
        "protocol": model.protocol.name,
        "parameters": {key: getattr(model.protocol.p, key) for key in sorted(model.protocol.parameters)},
        "rules": sorted(model.protocol.rules_on),
        "properties": run.names + run.step_names,
        "symmetry": options.symmetry,
        "deadlock": options.deadlock,
    }


def content_of(run: SearchState) -> str:
    """A digest of what is compiled for a search: states of another one would mean something else."""
    program = run.program
    digest = hashlib.sha256()
    model, layout, symmetry = program.model, program.layout, run.options.symmetry
    fingerprint = "canonical" if symmetry else "fingerprint"
    for part in (
        *map(repr, layout.slots),
        *map(str, model.instances),
        *model.bounds,
        *run.names,
        *run.step_names,
        repr([sorted(p.asked) for p in model.step_properties]),
        repr((symmetry, run.options.deadlock)),
        repr(run.initial.tolist()),
        program.kernels(model, layout).text(),
        canonical(model, layout) if symmetry else "",
        Runtime(layout.words, program.instances, fingerprint, of_steps=bool(model.step_properties)).text(),
    ):
        content = part.encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()


def refuse_other(directory: object, manifest: dict[str, Any], run: SearchState) -> None:
    """InputError where a checkpoint is of another search."""
    then, now = manifest.get("model"), model_of(run)
    if not isinstance(then, dict):
        raise InputError(f"--checkpoint {directory}: {MANIFEST} is damaged")
    for key in now:
        if then.get(key) != now[key]:
            said = difference(then.get(key), now[key])
            raise InputError(f"--resume: {directory} was made with other {key}: {said}")
    if manifest.get("content") != content_of(run):
        raise InputError(
            f"--resume: {directory} was made with another version of the protocol or the checker"
        )


def difference(then: object, now: object) -> str:
    """What was asked otherwise when a checkpoint was made, for people."""
    if isinstance(then, dict) and isinstance(now, dict):
        keys = [key for key in sorted({*then, *now}) if then.get(key) != now.get(key)]
        return ", ".join(f"{key} was {then.get(key)}, is {now.get(key)}" for key in keys)
    return f"then {then}, now {now}"
