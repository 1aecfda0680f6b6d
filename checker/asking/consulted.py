"""Rules that no code consults: switching one changes nothing, so a protocol that has one is not what its author meant.

A rule counts as consulted where tracing asks for it, where an action or a property exists only under it, or where its
name stands in the protocol's files outside the declarations. The last keeps a rule from being refused that is consulted
only under other rules or parameters than those that are traced.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from highwater.checker.asking import neighbours
from highwater.checker.asking.catalogue import Definition
from highwater.model.language.errors import LanguageError, place_of
from highwater.model.language.protocol import Protocol

_OURS = "highwater.model."
"""How the modules of the protocols that come with the checker begin, and of the language: its Protocol has no rule."""


def refuse_unconsulted(definition: Definition, traced: Protocol) -> None:
    """LanguageError, with the place, for a rule that nothing consults; ``traced`` is the protocol after tracing.

    Not checked: protocols that come with the checker, the rules that a protocol inherits from one of these, and a
    protocol without source files.
    """
    kind = definition.protocol
    if kind.__module__.startswith(_OURS):
        return
    ours = [b for b in kind.__mro__ if issubclass(b, Protocol) and b.__module__.startswith(_OURS)]
    left = {n for n, rule in kind.rules.items() if not any(base.rules.get(n) is rule for base in ours)}
    listed = (*definition.invariants, *definition.step_properties, *definition.liveness, *definition.helpers)
    left -= traced.consulted | {stated.rule for stated in (*kind.actions(), *listed)}
    if not left or not (files := list(_files(definition))):
        return
    for file in files:
        left -= _mentioned(file)
    for name in sorted(left):
        raise LanguageError(
            f"no code consults the rule {name!r}, so switching it changes nothing; "
            f'write self.on("{name}") or rule="{name}" where it matters, or remove it from `rules`',
            kind.rules[name].place or place_of(kind),
        )


def _files(definition: Definition) -> Iterator[Path]:
    """The files of a protocol's text: its own, and those that it imports from its folder or package."""
    if definition.file is not None:
        yield definition.file
        yield from neighbours.imported_by(definition.protocol.__module__).values()
        return
    module = sys.modules.get(definition.protocol.__module__)
    own = getattr(module, "__file__", None)
    if module is None or own is None:
        return
    package, folder = module.__name__.partition(".")[0], Path(own).parent
    for name, other in list(sys.modules.items()):
        file = getattr(other, "__file__", None)
        if file and (name.partition(".")[0] == package or Path(file).parent == folder):
            yield Path(file)


def _mentioned(file: Path) -> set[str]:
    """The texts in a file's code, without the keys of ``rules = {…}`` and what a Profile lists."""
    try:
        left: list[ast.AST] = [ast.parse(file.read_bytes())]
    except (OSError, SyntaxError, ValueError):
        return set()
    found: set[str] = set()
    while left:
        node = left.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("Profile", "Profile.of"):
            continue
        elif (
            isinstance(node, (ast.Assign, ast.AnnAssign))
            and isinstance(node.value, ast.Dict)
            and _is_rules(node)
        ):
            left += node.value.values
        else:
            left += ast.iter_child_nodes(node)
    return found


def _is_rules(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == "rules" for target in targets)
