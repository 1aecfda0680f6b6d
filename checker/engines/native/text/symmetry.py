"""Symmetry reduction: all states that renaming makes alike get the fingerprint of the least of them."""

from __future__ import annotations

from highwater.checker.asking.search import EngineError
from highwater.checker.engines.layout import Layout
from highwater.checker.engines.native.text.ir import FunctionText, ValueScope, signed
from highwater.checker.engines.native.text.kernels import combine
from highwater.model.language.graph import Node
from highwater.model.language.model import Model
from highwater.model.language.symmetry import asymmetry, renamed, renamings


def refuse_asymmetry(model: Model) -> None:
    """EngineError where sampled states show that the protocol or a property tells the renamed values apart."""
    reason = asymmetry(model)
    if reason:
        raise EngineError(f"symmetry cannot be used on {model.protocol.name}: {reason}")


def canonical(model: Model, layout: Layout) -> str:
    """``@canonical(words)``: the fingerprint of the least state, word by word, among all renamings."""
    f = FunctionText("internal i64 @canonical(ptr %words)")
    words = [f.load(f.at("%words", w)) for w in range(layout.words)]
    scope = ValueScope(f, layout, words)
    best = words
    for renaming in renamings(model):
        other = _packed(f, scope, layout, renamed(model, renaming))
        less = "false"
        for mine, theirs in reversed(list(zip(best, other, strict=True))):
            same = f.op(f"icmp eq i64 {theirs}, {mine}")
            less = f.op(f"select i1 {same}, i1 {less}, i1 {f.op(f'icmp ult i64 {theirs}, {mine}')}")
        best = [f.op(f"select i1 {less}, i64 {b}, i64 {a}") for a, b in zip(best, other, strict=True)]
    return f.end(f"i64 {combine(f, best)}")


def _packed(f: FunctionText, scope: ValueScope, layout: Layout, nodes: list[Node]) -> list[str]:
    words = [str(signed(0))] * layout.words
    for leaf, node in enumerate(nodes):
        word = layout.slots[leaf].word
        if layout.slots[leaf].bits == 0:
            continue
        words[word] = f.op(f"or i64 {words[word]}, {scope.pack(node, leaf)}")
    return words
