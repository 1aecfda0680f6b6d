"""The kernels of a model: machine code for its steps and its properties, as LLVM text.

``@successors`` writes a candidate for each step from a state, and marks the step properties that the step violates.
``@judge`` returns the properties that a state violates.

A candidate is a row of i64: fingerprint, predecessor, words of the state. The predecessor is the index of the source
state in its level, times 2**24, plus the number of the instance. Before the fingerprint is computed, the first field
has a bit for each step property that the step violates.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from highwater.checker.engines.native.context import CONTEXT
from highwater.checker.engines.native.ir import FunctionText, ValueScope, signed
from highwater.checker.engines.state_graph import Layout
from highwater.checker.scenarios.search import EngineError
from highwater.model.language import Model
from highwater.model.language.graph import Node
from highwater.model.language.model import Instance
from highwater.model.language.step_properties import TracedStepProperty
from highwater.model.language.symmetry import asymmetry, renamed, renamings

PREDECESSOR_BITS = 24
FINGERPRINT, PREDECESSOR, WORDS = 0, 1, 2


@dataclass(frozen=True)
class Output:
    """The place for the next candidate: its address, the index part of its predecessor, the source state's words."""

    start: str
    base: str
    words: list[str]


def by_guard(
    instances: list[tuple[int, Instance]], depth: int
) -> Iterator[tuple[Node | None, list[tuple[int, Instance]]]]:
    """Group instances by their guard at index ``depth``, in order of first appearance. Guard None: no further guard."""
    groups: dict[int, tuple[Node | None, list[tuple[int, Instance]]]] = {}
    for number, instance in instances:
        guard = instance.guards[depth].node if depth < len(instance.guards) else None
        groups.setdefault(guard.id if guard else -1, (guard, []))[1].append((number, instance))
    yield from groups.values()


def combine(f: FunctionText, words: list[str]) -> str:
    """Write code for the fingerprint of a state's words: 64 bits, never 0. Returns the name of the fingerprint.

    Each pair of words is xored with keys and multiplied, and the halves of the product are xored. If a word equals its
    key, the product is 0 whatever the pair's other word is. Because keys are pseudorandom, this is no likelier than a
    collision of fingerprints.
    """
    keys = _keys()
    parts = []
    for i in range(0, len(words), 2):
        one, other = [*words[i : i + 2], "0"][:2]
        parts.append(_folded(f, f.op(f"xor i64 {one}, {next(keys)}"), f.op(f"xor i64 {other}, {next(keys)}")))
    value = parts[0]
    for part in parts[1:]:
        value = f.op(f"add i64 {value}, {part}")
    value = _folded(f, f.op(f"xor i64 {value}, {next(keys)}"), str(next(keys)))
    zero = f.op(f"icmp eq i64 {value}, 0")
    return f.op(f"select i1 {zero}, i64 1, i64 {value}")


def _folded(f: FunctionText, one: str, other: str) -> str:
    """Write code that multiplies two words and xors the two halves of the product."""
    product = f.op(f"mul i128 {f.op(f'zext i64 {one} to i128')}, {f.op(f'zext i64 {other} to i128')}")
    high = f.op(f"trunc i128 {f.op(f'lshr i128 {product}, 64')} to i64")
    return f.op(f"xor i64 {f.op(f'trunc i128 {product} to i64')}, {high}")


def _keys() -> Iterator[int]:
    """Yield a fixed sequence of pseudorandom numbers: SplitMix64 with seed 0."""
    return (signed(mixed(number * GOLDEN)) for number in itertools.count())


GOLDEN, _FACTORS = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""The constants of SplitMix64."""


def mixed(number: int) -> int:
    """A well-distributed number of 64 bits: the number that SplitMix64 returns in the state ``number``."""
    mask = (1 << 64) - 1
    value = (number + GOLDEN) & mask
    value = (value ^ value >> 30) * _FACTORS[0] & mask
    value = (value ^ value >> 27) * _FACTORS[1] & mask
    return value ^ value >> 31


def mixed_text(f: FunctionText, number: str) -> tuple[str, str]:
    """Write code for the next state of SplitMix64 after the state ``number``, and for the number that it returns."""
    following = value = f.op(f"add i64 {number}, {signed(GOLDEN)}")
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        value = f.op(f"xor i64 {value}, {f.op(f'lshr i64 {value}, {shift}')}")
        value = f.op(f"mul i64 {value}, {signed(factor)}")
    return following, f.op(f"xor i64 {value}, {f.op(f'lshr i64 {value}, 31')}")


class Kernels:
    """Generates the kernels of a model as LLVM text."""

    def __init__(self, model: Model, layout: Layout) -> None:
        self.model, self.layout = model, layout
        self.candidate_width = WORDS + layout.words
        self.bounds = {bound: i for i, bound in enumerate(model.bounds)}
        self.fields: dict[str, str] = {}

    def text(self) -> str:
        """The LLVM text of all kernels."""
        large = [self._judge_large(n) for n, p in enumerate(self.model.step_properties) if p.is_large]
        return "\n".join([self._fingerprint(), *large, self._successors(), self._judge()])

    def _fingerprint(self) -> str:
        f = FunctionText("internal i64 @fingerprint(ptr %words) alwaysinline")
        return f.end(f"i64 {combine(f, self._load(f, '%words'))}")

    def _load(self, f: FunctionText, pointer: str) -> list[str]:
        return [f.load(f.at(pointer, w)) for w in range(self.layout.words)]

    def _successors(self) -> str:
        """Write ``@successors(context, state, index, count, out)``, which expands a state; ``count`` is ignored.

        It writes candidates to ``out``, and returns the address after the last one. ``counts`` has a counter for each
        instance, ``cuts`` for each bound. If a step leaves a type and no bound prunes it, ``error`` becomes
        1 + instance * 2**16 + check. ``stuck`` becomes 1 if the guards of a step hold, even if the step is pruned.
        ``premises`` has a counter for each invariant, then one for each step property. The function updates the
        latter: it counts the steps for which the property's premise holds.
        """
        f = FunctionText("ptr @successors(ptr %context, ptr %state, i64 %index, i64 %count, ptr %out)")
        words = self._load(f, "%state")
        base = f.op(f"shl i64 %index, {PREDECESSOR_BITS}")
        scope = ValueScope(f, self.layout, words)
        self.fields = {
            name: f.op(f"load ptr, ptr {f.at('%context', CONTEXT[name])}, align 8")
            for name in ("counts", "cuts", "premises", "cut_bits")
        }
        self.fields |= {name: f.at("%context", CONTEXT[name]) for name in ("error", "stuck")}
        f.store(0, self.fields["stuck"])
        instances = list(enumerate(self.model.instances))
        return f.end(f"ptr {self._decide(f, scope, instances, 0, Output('%out', base, words))}")

    def _decide(
        self,
        f: FunctionText,
        scope: ValueScope,
        instances: list[tuple[int, Instance]],
        depth: int,
        output: Output,
    ) -> str:
        """Write code for instances whose first ``depth`` guards hold. Returns the address after the last candidate.

        Instances with the same next guard share a branch, so a guard that does not hold skips all of them.
        """
        out = output.start
        for guard, group in by_guard(instances, depth):
            if guard is None:
                for number, instance in group:
                    out = self._take(f, scope, number, instance, replace(output, start=out))
                continue
            held, skip = f.fresh("held"), f.fresh("skip")
            f.branch(scope.value(guard), held, skip)
            before, here = out, f.block
            f.start(held)
            after = self._decide(f, scope.child(), group, depth + 1, replace(output, start=out))
            inside = f.block
            f.jump(skip)
            f.start(skip)
            out = f.join("ptr", [(before, here), (after, inside)])
        return out

    def _take(
        self, f: FunctionText, scope: ValueScope, number: int, instance: Instance, output: Output
    ) -> str:
        """Write code for an instance whose guards hold. Returns the address after the last candidate."""
        f.store(1, self.fields["stuck"])
        done = f.fresh("taken")
        arrivals: list[tuple[str, str]] = []
        scope = scope.child()
        self._checks(f, scope, number, instance, done, arrivals, output.start)
        predecessor = f.op(f"or i64 {output.base}, {number}")
        self._write(f, scope, instance, output.words, output.start, predecessor)
        if self.model.step_properties:
            judged = self._judged(f, scope, number)
            f.store(self._with_large(f, number, output, judged), f.at(output.start, FINGERPRINT))
        f.bump(f.at(self.fields["counts"], number))
        after = f.op(f"getelementptr inbounds i64, ptr {output.start}, i64 {self.candidate_width}")
        arrivals.append((after, f.block))
        f.jump(done)
        f.start(done)
        return f.join("ptr", arrivals)

    def _checks(
        self,
        f: FunctionText,
        scope: ValueScope,
        number: int,
        instance: Instance,
        skip: str,
        arrivals: list[tuple[str, str]],
        out: str,
    ) -> None:
        # Declared bounds first: a step that is pruned at a bound is no error.
        for position, check in sorted(enumerate(instance.checks), key=lambda c: c[1].bound is None):
            left, fine = f.fresh("left"), f.fresh("fine")
            f.branch(scope.value(check.node), left, fine)
            f.start(left)
            if check.bound is not None:
                self._cut(f, number, check.bound)
            else:
                f.store(1 + (number << 16) + position, self.fields["error"])
            arrivals.append((out, f.block))
            f.jump(skip)
            f.start(fine)

    def _judged(self, f: FunctionText, scope: ValueScope, number: int) -> str:
        """Write code for the bits of the step properties that a step violates. Large step properties are left out.

        The code also counts each premise that holds. Returns the name of the bits.
        """
        first, mask = len(self.model.properties), "0"
        for judged in self.model.judged_in_place[number]:
            holds, premise = scope.values([judged.node, judged.premise])
            f.bump(f.at(self.fields["premises"], first + judged.number), f.op(f"zext i1 {premise} to i64"))
            bad = f.op(f"select i1 {holds}, i64 0, i64 {signed(1 << judged.number)}")
            mask = f.op(f"or i64 {mask}, {bad}")
        return mask

    def _with_large(self, f: FunctionText, number: int, output: Output, mask: str) -> str:
        """Write code that adds the bits of violated large step properties to ``mask``.

        The code runs after the step is written. It checks a property only if the step changes a scalar that the
        property reads.
        """
        for at, prop in enumerate(self.model.step_properties):
            if not prop.is_large or number not in prop.asked:
                continue
            check, skip, here, before = f.fresh("check"), f.fresh("skip"), f.block, mask
            f.branch(self._touched(f, prop, output), check, skip)
            f.start(check)
            after, premises = f.at(output.start, WORDS), self.fields["premises"]
            bad = f.op(f"call i64 @judge_step_{at}(ptr %state, ptr {after}, ptr {premises})")
            found = f.op(f"or i64 {before}, {bad}")
            f.jump(skip)
            f.start(skip)
            mask = f.join("i64", [(before, here), (found, check)])
        return mask

    def _touched(self, f: FunctionText, prop: TracedStepProperty, output: Output) -> str:
        """Write code for the condition that a step changes a scalar that a property reads.

        The code compares the scalars' bits before and after the step.
        """
        masks = [0] * self.layout.words
        for slot in (self.layout.slots[leaf] for leaf in prop.reads or ()):
            masks[slot.word] |= slot.mask
        found = "0"
        for word, mask in enumerate(masks):
            if mask:
                new = f.load(f.at(output.start, WORDS + word))
                differs = f.op(f"xor i64 {output.words[word]}, {new}")
                found = f.op(f"or i64 {found}, {f.op(f'and i64 {differs}, {signed(mask)}')}")
        return f.op(f"icmp ne i64 {found}, 0")

    def _judge_large(self, number: int) -> str:
        """Write ``@judge_step_N(before, after, premises)``: it returns step property N's bit if violated, else 0."""
        f = FunctionText(
            f"internal i64 @judge_step_{number}(ptr %before, ptr %after, ptr %premises) noinline"
        )
        prop, both = self.model.step_properties[number], self.layout.twice()
        scope = ValueScope(f, both, [*self._load(f, "%before"), *self._load(f, "%after")])
        holds, premise = scope.values([prop.node, prop.premise])
        f.bump(f.at("%premises", len(self.model.properties) + number), f.op(f"zext i1 {premise} to i64"))
        return f.end(f"i64 {f.op(f'select i1 {holds}, i64 0, i64 {signed(1 << number)}')}")

    def _cut(self, f: FunctionText, number: int, bound: str) -> None:
        f.bump(f.at(self.fields["cuts"], self.bounds[bound]))

    def _write(
        self,
        f: FunctionText,
        scope: ValueScope,
        instance: Instance,
        words: list[str],
        out: str,
        predecessor: str,
    ) -> None:
        by_word: dict[int, list[int]] = {}
        for leaf in instance.writes:
            if self.layout.slots[leaf].bits == 0:
                continue  # the scalar has only one value; any other value fails a check
            by_word.setdefault(self.layout.slots[leaf].word, []).append(leaf)
        for word in range(self.layout.words):
            value = words[word]
            if word in by_word:
                mask = 0
                parts = []
                for leaf in by_word[word]:
                    mask |= self.layout.slots[leaf].mask
                    parts.append(scope.pack(instance.writes[leaf].node, leaf))
                value = f.op(f"and i64 {value}, {signed(~mask)}")
                for part in parts:
                    value = f.op(f"or i64 {value}, {part}")
            f.store(value, f.at(out, WORDS + word))
        f.store(predecessor, f.at(out, PREDECESSOR))

    def _judge(self) -> str:
        """Write ``@judge(state, premises)``: the bits of the violated invariants. It also counts premises that hold."""
        f = FunctionText("i64 @judge(ptr %state, ptr %premises)")
        scope = ValueScope(f, self.layout, self._load(f, "%state"))
        mask = "0"
        for number, prop in enumerate(self.model.properties):
            holds, premise = scope.values([prop.node, prop.premise])
            f.bump(f.at("%premises", number), f.op(f"zext i1 {premise} to i64"))
            bad = f.op(f"zext i1 {f.op(f'xor i1 {holds}, true')} to i64")
            mask = f.op(f"or i64 {mask}, {f.op(f'shl i64 {bad}, {number}')}")
        return f.end(f"i64 {mask}")


# Symmetry reduction: a state gets the fingerprint of its least renaming.


def refuse_asymmetry(model: Model) -> None:
    """Raises EngineError if sampled states show that the protocol or a property distinguishes renamed values."""
    reason = asymmetry(model)
    if reason:
        raise EngineError(f"symmetry cannot be used on {model.protocol.name}: {reason}")


def canonical(model: Model, layout: Layout) -> str:
    """The LLVM text of ``@canonical(words)``, which returns the fingerprint of a state's least renaming.

    A renaming is a symmetric state. Renamings are compared word by word.
    """
    f = FunctionText("internal i64 @canonical(ptr %words)")
    words = [f.load(f.at("%words", w)) for w in range(layout.words)]
    scope = ValueScope(f, layout, words)
    best = words
    for renaming in renamings(model):
        other = _packed(f, scope, layout, renamed(model, renaming))
        less = "false"
        for mine, theirs in reversed(list(zip(best, other, strict=True))):
            same = f.op(f"icmp eq i64 {theirs}, {mine}")
            also = f.op(f"and i1 {same}, {less}")
            less = f.op(f"or i1 {also}, {f.op(f'icmp ult i64 {theirs}, {mine}')}")
        best = [f.op(f"select i1 {less}, i64 {b}, i64 {a}") for a, b in zip(best, other, strict=True)]
    return f.end(f"i64 {combine(f, best)}")


def _packed(f: FunctionText, scope: ValueScope, layout: Layout, nodes: list[Node]) -> list[str]:
    words = ["0"] * layout.words
    for leaf, node in enumerate(nodes):
        word = layout.slots[leaf].word
        if layout.slots[leaf].bits == 0:
            continue
        words[word] = f.op(f"or i64 {words[word]}, {scope.pack(node, leaf)}")
    return words
