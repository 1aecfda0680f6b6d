"""Typical mistakes of an author of a protocol: each error is one line with the place and what to write."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.command import highwater

MINE = '''from highwater.language import *

SEEN = []


@invariant("example")
def small(m, s):
    """The count is small."""
    return s.n <= m.p.top
@TOP


class Mine(Protocol):
    parameters = {"nodes": Parameter(3, 1, 5, "nodes"), "top": Parameter(2, 1, 4, "the largest count")}
    rules = {"careful": Rule("example", "It counts only while it is off.")}
    invariants = (small,)
@CLASS

    def define(self):
@HEAD
        self.node, self.disk = Index("node", self.p.nodes), Index("disk", 2)
        self.place, self.shape = Enum("Place", "home work"), Enum("Shape", "ROUND LONG")
        self.msgs = Messages(ask=dict(to=self.node, prev=Int(0, 2)), tell=dict(who=self.node, up=Bool), stop={})
        self.asked = self.msgs.of("ask")
        self.pair = pair = Struct("Pair", who=self.node, up=Bool)
        other_pair = Struct("OtherPair", who=self.node, up=Bool)
        row, self.group = Array(self.node, Int(0, 2)), Set(self.node)
        logs = Array(self.node, Struct("Log", entries=Seq(Int(0, 2), 2)))
@DEFINE
        return Struct("State", n=Int(0, 4), on=Bool, log=Seq(Int(0, 2), 2, bound="log"), who=Set(self.node), row=row,
            at=self.place, o=Option(self.node), disk=self.disk, pair=pair, msgs=self.msgs, g=Bool, node=self.node,
            shape=self.shape, disks=Set(self.disk), other_pair=other_pair, parcel=Option(pair), small=Option(Int(0, 3)),
            negative=Option(Int(-2, 3)), logs=logs, shades=Array(self.place, Bool))

    def record(self, s, n):
        s.next.log = s.log.append(n)

    @action(says="count")
    def count(self, s):
        require("it is off", ~s.on, rule="careful")
        require("it is small", s.n < self.p.top)
        s.next.n = s.n + 1
        self.record(s, 1)

    @action(says="node {p} acts on {a[to]}", p="node", a="asked")
    def act(self, s, p, a):
        seen = []
@ACT
        s.next.on = ~s.on
'''
MISTAKES = [
    # Python's control flow and functions on values of the state
    ("ACT", "if s.n > 0: s.next.n = 0", "write where(condition, a, b)"),
    ("ACT", 'require("x", s.n > 0 and s.on)', "combine with &"),
    ("ACT", 'require("x", not s.on)', "combine with &, |, ~"),
    ("ACT", 'require("x", 1 in s.who)', "write .has(x)"),
    ("ACT", 'require("x", s.at in ("home", "work"))', "write where"),
    ("ACT", 'require("x", len(s.log) > 0)', "write size(x)"),
    ("ACT", 'require("x", s.log.size > 0)', "write size(x)"),
    ("ACT", "s.next.n = max(s.row[i] for i in self.node)", "least, greatest"),
    ("ACT", 'require("x", 0 < s.n < 2)', "combine with &"),
    ("ACT", 'require("x", s.n > 0 & s.n < 2)', "put each comparison in parentheses"),
    ("ACT", "for i in s.who: s.next.row[i] = 1", "loop over its index type"),
    (
        "ACT",
        "for i in range(s.n): s.next.row[i] = 1",
        "loop over all its values i and write where(x == i, …)",
    ),
    ("ACT", 'require(f"{s.n}", s.on)', "name guards by what is known"),
    ("ACT", 'require("x", s.o is None)', "write s.o.is_none"),
    ("ACT", 'require("x", s.o.is_some())', "no (…) after it"),
    ("ACT", 'require("x", s.who.has)', "call it, (…)"),
    ("ACT", 'require("x", all_of(s.on))', "write [a, b], or … for i in index"),
    ("ACT", "if ~self.on('careful'): s.next.n = 1", "is always true: write `not`"),
    ("ACT", "s.next.n = s.n / 2", "write //"),
    ("ACT", "s.next.n = s.n ** 2", "write a product"),
    # operations that a value does not have
    ("ACT", 'require("x", 1 in s.row)', "write .has"),
    ("ACT", 'require("x", 1 in s.log)', "write .has"),
    ("ACT", 'require("x", s.n in (1, 2))', "cannot decide"),
    ("ACT", 'require("x", s.n in {1, 2})', "any_of"),
    ("ACT", 'require("x", "n" in s)', "read its fields"),
    ("ACT", 'require("x", [x for x in s.log])', "cannot be iterated"),
    ("ACT", 'require("x", [x for x in s])', "read its fields"),
    ("ACT", 'require("x", size(s.row))', "counts a Set or a Seq"),
    ("ACT", 'require("x", hash(s.n))', "not known while tracing"),
    ("ACT", 'require("x", hash(s))', "read its fields"),
    ("ACT", 'require("x", sorted([s.n, s.node]))', "cannot decide"),
    ("ACT", "s.next.n = min(s.n, 1)", "least, greatest"),
    ("ACT", "s.next.n = int(s.n)", "not known while tracing"),
    ("ACT", 'require(f"{s.n} is small", s.on)', "not known while tracing, so it cannot become text"),
    ("ACT", "require(str(s.log), s.on)", "cannot become text"),
    ("ACT", 'require("x", 0 < s.n < 3)', "chained comparison"),
    ("ACT", 'require("x", bool(s.o))', "no truth value"),
    ("ACT", 'require("x", bool(s))', "read its fields"),
    ("ACT", "s.next.n = 1 if s.n else 2", "no truth value"),
    ("ACT", 'require("x", s.n == 1 & s.on)', "in parentheses"),
    ("ACT", 'require("x", s.on & s.n == 1)', "in parentheses"),
    ("ACT", 'require("x", s.on | s.n > 1)', "in parentheses"),
    ("ACT", 'require("x", ~s.n == 1)', "in parentheses"),
    ("ACT", "s.next.n = divmod(s.n, 2)", "divmod() has no meaning"),
    ("ACT", "s.next.n = abs(s.n)", "abs() has no meaning"),
    ("ACT", "s.next.n = s.on + 1", "total(conditions)"),
    ("ACT", 'require("x", s.on < s.g)', "< has no meaning"),
    ("ACT", "s.next.n = s.small + 1", "under .is_some take its .value"),
    ("ACT", 'require("x", 3 <= s.small)', "under .is_some take its .value"),
    ("ACT", "s.next.node = s.parcel.who", "has no 'who'; under .is_some"),
    ("ACT", "s.next.log = s.log + s.row", "expected Seq"),
    ("ACT", 'require("x", s.log.lenght > 1)', "did you mean 'length'"),
    ("ACT", "s.next.who = s.who.add(1)", "has no 'add'"),
    ("ACT", "s.next.n = s.n[0]", "no elements to index"),
    ("ACT", "s.next.n = s.missing", "no field 'missing'"),
    ("ACT", "s.next.shape = s.shap", "did you mean 'shape'"),
    ("ACT", "s.next.shap = 1", "did you mean 'shape'"),
    ("ACT", "s.next.node = s.nodes", "did you mean 'node'"),
    ("ACT", "s.next = s.replace(n=1)", "no field 'replace'"),
    ("ACT", "s.row[0] = 1", "values never change"),
    ("ACT", "s.row[1].x = 1", "values never change"),
    ("ACT", "s.next.n = self.p.most", "no parameter 'most'"),
    ("ACT", 'require("x", self.on("hasty"))', "no rule 'hasty'"),
    ("ACT", 'require("x", s.n == s.small)', ".is_(x)"),
    (
        "ACT",
        "s.next.node = least_by(self.node, lambda i: s.on)",
        "least_by() compare numbers, not <symbolic bool>",
    ),
    ("ACT", "s.next.node = least_by(self.node, lambda i: True)", "compare numbers"),
    ("ACT", "s.next.node = least_by(self.node, lambda i: s.at)", "compare numbers"),
    ("ACT", "s.next.node = least_by(self.node, s.n)", "a symbolic Int(0..4) is no function: write lambda"),
    ("ACT", "s.next.node = first(self.node, s.on)", "a symbolic bool is no function: write lambda"),
    ("ACT", "s.next.node = first([0, 1], lambda i: s.on)", "needs an Index or an Enum"),
    ("ACT", "s.next.node = first(Int(0, 1), lambda i: s.on)", "needs an Index or an Enum"),
    ("ACT", "s.next.who = self.group.of(s.on)", "a symbolic bool is no function"),
    # indices that are outside in every state
    ("ACT", 'require("x", s.log[-1] == 1)', "write .last"),
    ("ACT", 'require("x", s.log[s.n - 9] == 1)', "-9..-5"),
    ("ACT", "s.next.log = s.log[1:]", "write .truncate"),
    ("ACT", 'require("x", s.log.at(-1) == 1)', "no position"),
    ("ACT", 'require("x", s.row[-1] == 1)', "-1 is not a value of Index(node, 3)"),
    ("ACT", 'require("x", s.row[self.node.lift(0) - 1] == 1)', "-1 is no index"),
    ("ACT", 'require("x", s.row[s.n + 3] == 1)', "3..7 is no index"),
    ("ACT", "s.next.row = s.row[1:]", "expected Index"),
    ("ACT", "s.next.row = s.row.set(self.node.lift(2) + 1, 0)", "3 is no index"),
    ("ACT", "s.next.g = s.on & s.logs[self.node.lift(0) - 1].entries.has(1)", "-1 is no index"),
    ("ACT", "s.next.row[self.node.lift(2) + 1] = 1", "3 is no index"),
    ("ACT", "s.next.log[3] = 1", "3 is no index"),
    # s.next is not read
    ("ACT", 'require("x", s.next.n == 2)', "only written"),
    ("ACT", 'require("x", s.next.n < 2)', "only written"),
    ("ACT", 'require("x", s.on & s.next.on)', "only written"),
    ("ACT", 'require("x", not s.next.on)', "only written"),
    ("ACT", 'require("x", 1 in s.next.who)', "only written"),
    ("ACT", 'require("x", s.next == s)', "only written"),
    ("ACT", 'require("x", [x for x in s.next.log])', "only written"),
    ("ACT", 'require("x", len(s.next.log) > 0)', "only written"),
    ("ACT", "s.next.n = 1 - s.next.n", "only written"),
    ("ACT", "s.next.n = -s.next.n", "only written"),
    ("ACT", "s.next.n()", "only written"),
    ("ACT", "s.next.n = s.row[s.next.n]", "only written"),
    ("ACT", "s.next.n = where(s.on, s.next.n, s.n)", "only written"),
    ("ACT", 'require("x", f"{s.next.n}")', "only written"),
    ("ACT", "s.next.pair = s.pair.replace(up=s.next.on)", "only written"),
    ("ACT", "s.next.n = s.next.row[0]", "only written"),
    # guards and writes
    ("ACT", "s.n = 1", "write s.next.n"),
    ("ACT", "s.next.n += 1", "write s.next.… = s.… + …"),
    ("ACT", "s.next.who.with_(1)", "write s.next.… = s.….with_(…)"),
    ("ACT", "s.log.append(1)", "has no effect: write s.next.… = …"),
    ("ACT", "row = s.row.set(1, 1)", "nothing reads row"),
    ("ACT", "n = s.n + 1", "nothing reads n"),
    ("ACT", "s.n > 0", 'has no effect: write s.next.… = …, require("…", …)'),
    ("ACT", "implies(s.on, s.n > 1)", 'require("…", …)'),
    ("ACT", "require(s.n > 0)", 'write require("…", condition)'),
    ("ACT", "return s.on", "it writes s.next and returns nothing"),
    ("ACT", "s.next.n = 1; s.next.n = 2", "a second time; the first time at"),
    ("ACT", "s.next.n = 1\nwith when(s.on):\n    s.next.n = 2", "a second time; the first time at"),
    ("ACT", "with when(s.on):\n    s.next.n = 1\n    s.next.n = 2", "a second time; the first time at"),
    ("ACT", "s.next.row[s.node] = 1; s.next.row[s.node] = 1", "a second time; the first time at"),
    ("ACT", "s.next.row[s.node] = 1; s.next.row = [0, 0, 0]", "a second time; the first time at"),
    ("ACT", "s.next = s", "write s.next.field = …"),
    ("ACT", "with when(s.on):\n    s.next.n = 1\notherwise()", "otherwise() without `with`"),
    ("ACT", "with otherwise():\n    s.next.n = 1", "otherwise() follows a `with when(…):`"),
    ("ACT", "with when(s.on), otherwise():\n    s.next.n = 1", "otherwise() follows"),
    ("ACT", "with when(s.on):\n    s.next.n = one_of('n', [1, 2])", "one_of() stands outside of `with when"),
    (
        "ACT",
        "s.next.n = one_of('n', [1, 2]); s.next.node = one_of('n', self.node)",
        "there is a choice 'n' above",
    ),
    ("ACT", "s.next.n = one_of('n', [])", "has nothing to choose from"),
    ("ACT", "s.next.n = one_of('n', 3)", "a type or a list"),
    ("ACT", "s.next.node = one_of(self.node, self.node)", "needs a name first"),
    ("ACT", "s.next.n = one_of('n', [s.n, s.node])", "not from values of the state"),
    ("ACT", "s.next.n = one_of('x', 'abc')", "one_of('x', …) cannot choose from 'abc'"),
    ("ACT", "s.next.n = one_of('x', {'a'})", "cannot choose from {'a'}"),
    ("ACT", "s.next.n = one_of('x', range(1 << 18))", "this list: it has too many values"),
    ("ACT", "when(s.on); s.next.n = 1", "write `with when(…):`"),
    ("ACT", "s.next.n = 5", "is not a value of Int(0..4)"),
    ("ACT", "s.msgs.send('ask', to=1, prev=0)", "write s.next.….send(…)"),
    ("ACT", "s.next.msgs.send('ask', to=1)", "has the fields prev"),
    ("ACT", "s.next.msgs.send('aks', to=1)", "did you mean 'ask'"),
    ("ACT", "s.next.msgs.send('tell', who=1, up=3)", "expected a bool"),
    ("ACT", "s.next.msgs.send('tell', who=1, sup=True)", "did you mean 'up'"),
    ("ACT", "s.next.msgs.send(3)", "named by its kind first"),
    ("ACT", 'require("x", s.next.msgs.has("stop"))', "only written"),
    ("ACT", "s.next.msgs.send('stop'); s.next.msgs = {}", "a second time"),
    # state that is no field
    ("ACT", "self.count = s.n", "add a field to the state"),
    ("ACT", "SEEN.append(1)", "add a field to the state"),
    ("ACT", "global SEEN", "add a field to the state"),
    ("ACT", "SEEN[0:0] = [1]", "add a field to the state"),
    (
        "CLASS",
        "@action()\ndef bad(self, s, seen=[]):\n    seen.append(1)",
        "has no effect: write s.next.… = …",
    ),
    ("CLASS", "def __init__(self, *a):\n    self.x = self.state.n", "write types in define()"),
    # values of another type
    ("ACT", 'require("x", s.at == self.shape.ROUND)', "do not go together"),
    ("ACT", 'require("x", s.at < s.shape)', "do not go together"),
    ("ACT", 'require("x", s.at == 0)', "expected Enum(Place), not 0"),
    ("ACT", 'require("x", s.at == "PINK")', "expected Enum(Place), not 'PINK'"),
    ("ACT", 'require("x", s.at == self.place.homee)', "has no member 'homee'; did you mean 'home'"),
    ("ACT", "s.next.at = s.at + 1", "names, not numbers"),
    ("ACT", "s.next.n = greatest(1, s.pair)", "compare numbers"),
    ("ACT", "s.next.at = where(s.on, s.at, s.shape)", "do not go together"),
    ("ACT", "s.next.at = self.place.lift(s.shape)", "expected Enum(Place)"),
    ("ACT", 'require("x", s.node == s.disk)', "do not go together"),
    ("ACT", 'require("x", s.who.has(s.disk))', "expected Index(node, 3), not symbolic Index(disk, 2)"),
    ("ACT", 'require("x", s.who == s.disks)', "do not go together"),
    ("ACT", "s.next.who = s.who | s.disks", "expected Set(node)"),
    ("ACT", 'require("x", s.pair == s.other_pair)', "do not go together"),
    ("ACT", 'require("x", s.pair == s.parcel)', "Option is compared with"),
    ("ACT", 'require("x", s.small == s.negative)', "expected Option"),
    ("ACT", 'require("x", s.on == s.n)', "do not go together"),
    ("ACT", 'require("x", s.n == True)', "not True"),
    ("ACT", 'require("x", self.pair == s.pair)', "is a type"),
    ("ACT", 'require("x", s.pair == self.pair)', "expected Pair"),
    ("ACT", 'require("x", 1)', "expected a bool, not 1"),
    ("ACT", 'require("x", s.log == s.who)', "do not go together"),
    ("ACT", "s.next.at = where(s.on, 'home', 'work')", "write T.home for a member of the Enum T"),
    ("ACT", "s.next.o = where(s.on, None, 1)", "write T.lift(None)"),
    ("ACT", 'require("x", s.at == self.shape.LONG)', "cases((condition, member)"),
    ("ACT", "s.next.at = s.n + 0", "not symbolic number: write a member such as 'home' or 'work'"),
    ("ACT", 'require("x", s.who.has(s.disk))', "write x + 0"),
    ("ACT", "s.next.disk = s.o.value", "write x + 0"),
    ("ACT", 'require("x", s.on == 1)', "write True or False"),
    ("ACT", "s.next.who = 1", "write a list"),
    ("ACT", "s.next.log = s.log + 1", "or x.append(y)"),
    ("ACT", "s.next.row = 0", "or T.fill(x)"),
    ("ACT", "s.next.pair = dict(who=1)", "Pair needs up: write dict"),
    ("ACT", 'require("x", s.log[a.prev - 1] == 1)', "guard what uses the element: `if m.prev > 0:`"),
    ("ACT", "s.next.row[p - 1] = 1", "guard what uses the element: `if m.prev > 0:`"),
    # declarations
    ("DEFINE", "x = Bool()", "write it without ()"),
    ("DEFINE", "x = Int(3)", "Int() missing 1 required positional argument: 'high'"),
    ("DEFINE", "x = Struct('X', n=int)", "write Bool, Int(low, high)"),
    ("DEFINE", "x = Set(pair)", "or Messages for structs"),
    ("DEFINE", "x = Enum('E', 'a, b')", "separate names by blanks"),
    ("DEFINE", "x = self.nodes", "did you mean 'node'?"),
    ("DEFINE", "x = self.p.node", "did you mean 'nodes'?"),
    (
        "DEFINE",
        "x = Messages(append=dict(to=Index('s', 5), term=Int(0, 9), prev=Int(0, 9), last=Int(0, 9), size=Int(0, 9)))",
        "50,000 different messages 'append', and 16,384 are the most (to 5 × term 10",
    ),
    ("CLASS", "def step(self, s):\n    s.next.n = 1", "nothing uses 'step': mark it by @action(…)"),
    (
        "CLASS",
        "@action()\ndef x(self, s):\n    s.next.n = 1\n\n@action()\ndef x(self, s):\n    s.next.n = 2",
        "there is an action 'x' above",
    ),
    ("CLASS", "def is_small(self, s):\n    return s.n < 3", "or as a property"),
    ("CLASS", "@action(p='nodes')\ndef bad(self, s, p):\n    s.next.n = 1", "did you mean 'node'?"),
    ("CLASS", "@action\ndef bad(self, s):\n    s.next.n = 1", 'write @action("…")'),
    ("CLASS", "def initial(self, s):\n    s.next.n = 1", "initial() is a function of (self)"),
    ("CLASS", "def init(self):\n    return [{'n': 1}]", "did you mean 'initial'?"),
    ("CLASS", "def initially(self, s):\n    s.n == 0", "it returns a condition"),
    ("CLASS", "invariants = small", "write the mark above it, and invariants = (…,)"),
    ("CLASS", "profiles = {'a': Profile.of('careful')}", "write Profile.of"),
    ("CLASS", "rules = {'careful': 'It waits.'}", 'write {"name": Rule(…)}'),
    ("CLASS", "rules = {'careful': Rule('x', 'y'), 'never': Rule('x', 'y')}", 'write self.on("never")'),
    ("DEFINE", 'x = Enum("Kind", "RED GREEN RED")', "different names"),
    ("DEFINE", 'x = Enum("Kind", "")', "different names"),
    ("DEFINE", 'x = Enum("Kind", [1, 2])', "are names, not 1"),
    ("DEFINE", "x = Array(Int(0, 1), Bool)", "Array needs an Index or an Enum"),
    ("DEFINE", "x = Set(Bool)", "Set needs an Index or an Enum"),
    ("DEFINE", "x = Array(self.node, bool)", "Array needs a type"),
    ("DEFINE", "x = Option(3)", "Option needs a type"),
    ("DEFINE", 'x = Seq(Bool, "3")', "whole number"),
    ("DEFINE", "x = Seq(int, 3)", "Seq needs a type"),
    ("DEFINE", "x = Int(3, 1)", "has no value"),
    ("DEFINE", "x = Int(0, 1.5)", "whole numbers, not 1.5"),
    ("DEFINE", 'x = Index(3, "node")', "write Index(\"broker\", 3), not 3, 'node'"),
    ("DEFINE", 'x = Index("node", True)', "not 'node', True"),
    ("DEFINE", 'x = Enum("kind", True)', "an Enum has a name and members"),
    ("DEFINE", 'x = Enum(3, "kind")', "an Enum has a name and members"),
    ("DEFINE", "x = Seq(Bool, 10**6)", "Seq(Bool, 1000000) has too many scalars"),
    ("DEFINE", 'x = Seq(Array(Index("n", 1000), Bool), 1000)', "too many scalars"),
    ("DEFINE", 'x = Array(Index("n", 1 << 10), Array(Index("k", 1 << 10), Bool))', "too many scalars"),
    (
        "HEAD",
        'self.state = Enum("State", "IDLE BUSY")',
        "define() sets self.state, which every protocol has",
    ),
    ("HEAD", 'self.p = Index("p", 3); return Struct("State", n=Bool)', "define() sets self.p,"),
    ("HEAD", 'self.rules = Set(Index("n", 2)); return Struct("State", n=Bool)', "define() sets self.rules,"),
    ("HEAD", 'return {"n": Bool}', "it returns the Struct"),
    ("HEAD", "return None", "define() returned None"),
    ("CLASS", "x = Parameter(9, 1, 5, 'too much')", "not in its range, 1 to 5"),
    (
        "CLASS",
        "@action(s='node')\ndef bad(self, s):\n    s.next.n = 1",
        "cannot be called 's': its function begins with (self, s)",
    ),
    ("CLASS", "@action(self='node')\ndef bad(self, s):\n    s.next.n = 1", "cannot be called 'self'"),
    (
        "CLASS",
        "@action()\ndef bad(self, s, who):\n    s.next.n = 1",
        "'who' of action bad has no domain: write who=",
    ),
    ("CLASS", "@action(who='node')\ndef bad(self, s):\n    s.next.n = 1", "gives 'who' a domain"),
    ("CLASS", "@action()\ndef bad(self):\n    pass", "needs the parameters (self, s)"),
    (
        "CLASS",
        "@action(says='{what}', who='node')\ndef bad(self, s, who):\n    s.next.n = 1",
        "names {what}; its parameters are who",
    ),
    (
        "CLASS",
        "@action(says='takes {}')\ndef bad(self, s):\n    s.next.n = 1",
        "names {}; its parameters are none",
    ),
    (
        "CLASS",
        "@action(says='takes {who', who='node')\ndef bad(self, s, who):\n    s.next.n = 1",
        "the sentence of action bad",
    ),
    (
        "CLASS",
        "@action(who=Index('n', 2))\ndef bad(self, s, who):\n    s.next.n = 1",
        "the domain of 'who' of action bad is the name of an attribute",
    ),
    (
        "CLASS",
        "@action(who='pair')\ndef bad(self, s, who):\n    s.next.n = 1",
        "parameter 'who': Pair cannot be enumerated",
    ),
    ("CLASS", "@action(rule='carefull')\ndef bad(self, s):\n    s.next.n = 1", "no rule 'carefull'"),
    ("CLASS", "@action()\ndef on(self, s):\n    s.next.n = 1", "an action cannot be called 'on'"),
    (
        "CLASS",
        "ways = 3\n\n@action(who='ways')\ndef bad(self, s, who):\n    s.next.n = 1",
        "ranges over 'ways', which is neither a type nor a list",
    ),
    (
        "CLASS",
        "ways = 'abc'\n\n@action(who='ways')\ndef bad(self, s, who):\n    s.next.n = 1",
        "'ways' cannot be 'abc': write a type, a list or a tuple",
    ),
    (
        "CLASS",
        "ways = iter([1, 2])\n\n@action(who='ways')\ndef bad(self, s, who):\n    s.next.n = 1",
        "'ways' cannot be <list_iterator",
    ),
    (
        "CLASS",
        "ways = {'a'}\n\n@action(who='ways')\ndef bad(self, s, who):\n    s.next.n = 1",
        "'ways' cannot be {'a'}",
    ),
    (
        "CLASS",
        "ways = Int(0, 1 << 17)\n\n@action(who='ways')\ndef bad(self, s, who):\n    s.next.n = 1",
        "it has too many values (the maximum is 131,072)",
    ),
    (
        "CLASS",
        "ways = Set(Index('node', 60))\n\n@action(who='ways')\ndef bad(self, s, who):\n    s.next.n = 1",
        "too many values",
    ),
    (
        "CLASS",
        "ways = Int(0, 400)\n\n@action(a='ways', b='ways')\ndef bad(self, s, a, b):\n    s.next.n = 1",
        "has 160,801 combinations of parameter values",
    ),
    ("CLASS", "@property\n@action()\ndef bad(self, s):\n    s.next.n = 1", "hides 'bad' of Mine"),
    ("CLASS", "@staticmethod\n@action()\ndef bad(self, s):\n    s.next.n = 1", "hides 'bad' of Mine"),
    ("CLASS", "@classmethod\n@action()\ndef bad(self, s):\n    s.next.n = 1", "hides 'bad' of Mine"),
    (
        "CLASS",
        "from functools import cached_property\n\n@cached_property\n@action()\ndef bad(self, s):\n    s.next.n = 1",
        "hides 'bad' of Mine",
    ),
    ("CLASS", "@property\n@invariant('x')\ndef bad(self, s):\n    return s.on", "hides 'bad' of Mine"),
    ("CLASS", "@invariant('x')\ndef bad(self, s):\n    return s.on", "would not be checked"),
    ("CLASS", "invariants = (len,)", "is a tuple of what @invariant marks"),
    (
        "CLASS",
        "invariants = (small, invariant('x', name='small')(lambda m, s: s.on))",
        "two properties have the name 'small'",
    ),
    (
        "CLASS",
        "step_properties = (step_property('x', name='small')(lambda m, before, after: after.on),)",
        "two properties have the name 'small'",
    ),
    (
        "CLASS",
        "liveness = (eventually('x', name='small')(lambda m, s: s.on),)",
        "two properties have the name 'small'",
    ),
    (
        "CLASS",
        "reachable = (reachable('x', name='small')(lambda m, s: s.on),)",
        "two properties have the name 'small'",
    ),
    (
        "CLASS",
        "helpers = (invariant('x', name='small')(lambda m, s: s.on),)",
        "two properties have the name 'small'",
    ),
    (
        "CLASS",
        "invariants = (invariant('x', name='deadlock')(lambda m, s: s.on),)",
        "cannot be called 'deadlock'",
    ),
    (
        "CLASS",
        "invariants = (invariant('x', name='invariants')(lambda m, s: s.on),)",
        "cannot be called 'invariants'",
    ),
    (
        "CLASS",
        "invariants = (invariant('x', name='step_properties')(lambda m, s: s.on),)",
        "cannot be called 'step_properties'",
    ),
    (
        "CLASS",
        "invariants = (invariant('x', name='liveness')(lambda m, s: s.on),)",
        "cannot be called 'liveness'",
    ),
    (
        "CLASS",
        "invariants = (invariant('x', name='helpers')(lambda m, s: s.on),)",
        "cannot be called 'helpers'",
    ),
    (
        "CLASS",
        "invariants = (invariant('x', name='reachable')(lambda m, s: s.on),)",
        "cannot be called 'reachable'",
    ),
    ("CLASS", "invariants = (invariant('x', rule='carefull')(lambda m, s: s.on),)", "no rule 'carefull'"),
    ("CLASS", "invariants = (invariant('x', needs='nods')(lambda m, s: s.on),)", "no parameter 'nods'"),
    ("CLASS", "profiles = {'hasty': Profile.of('nothing', 'carefull')}", "did you mean 'careful'"),
    (
        "CLASS",
        "liveness = (eventually('x', fair=weak('count', when=lambda m: True))(lambda m, s: s.on),)",
        "is a function of (protocol, state)",
    ),
    ("CLASS", "liveness = (eventually('x', fair='count')(lambda m, s: s.on),)", ", not 'count'"),
    (
        "CLASS",
        "liveness = (eventually('x', fair=[weak('count'), weak('count')])(lambda m, s: s.on),)",
        "or weak(…) + strong(…), not [(",
    ),
    ("CLASS", "def initial(self):\n    return [{'x': 1}]", "State has no field 'x'"),
    (
        "CLASS",
        "def initial(self):\n    return [{'pair': {'who': 7, 'up': False}}]",
        "State.pair: Pair.who: 7 is not a value of Index",
    ),
    ("CLASS", "def initial(self):\n    return [{'on': 0}]", "State.on: expected a bool, not 0"),
    ("CLASS", "def initial(self):\n    return []", "has no initial state"),
    ("CLASS", "def initial(self):\n    return {'n': 1}", "a list of states, not one state"),
    ("CLASS", "def initial(self):\n    return None", "a list of states, not None"),
    ("CLASS", "def initial(self):\n    return [None]", "expected State, not None"),
    ("CLASS", "def initial(self):\n    return [{1: 2}]", "expected State"),
    ("TOP", "@invariant\ndef bad(m, s):\n    return s.on", "@invariant needs parentheses"),
    ("TOP", "@eventually\ndef bad(m, s):\n    return s.on", "@eventually needs parentheses"),
    (
        "TOP",
        "@invariant('x')\ndef bad(m, before, after):\n    return after.on",
        "an invariant is a function of (protocol, state); bad: missing",
    ),
    (
        "TOP",
        "@step_property('x')\ndef bad(m, s):\n    return s.on",
        "a step property is a function of (protocol, before, after); bad: too many",
    ),
    ("TOP", "eventually('x')(lambda m: True)", "the eventually property is a function of (protocol, state)"),
    (
        "TOP",
        "refines(Protocol, 'x')(lambda m, before, after: {})",
        "a refinement is a function of (protocol, state)",
    ),
    ("TOP", "invariant('x')(small)", "a function of (protocol, state), not Invariant"),
    ("TOP", "weak('count', by='node')", "by= lists the names of parameters: write by=['node']"),
    ("TOP", "weak(action()(lambda self, s: None))", "names actions by texts or either(…), not Action"),
    ("TOP", "eventually('x', c=Index('n', 2))(lambda m, s, c: s.on)", "the domain of 'c'"),
    ("DEFINE", "x = Messages(ask=self.node)", "is a dict of its fields"),
    ("DEFINE", "x = Messages(has=dict(who=self.node))", "cannot have a kind 'has'"),
    ("DEFINE", "x = Messages(send=dict(who=self.node))", "cannot have a kind 'send'"),
    ("CLASS", "def initial(self):\n    return [{'n': free(1, 7)}]", "7 is not a value"),
    ("CLASS", "def initial(self):\n    return [{'msgs': free}]", "is given one by one"),
    ("CLASS", "def initial(self):\n    return [{'n': free(free)}]", "in which nothing is free"),
    ("CLASS", "def initial(self):\n    return [{'n': free()}]", "names the values to choose from"),
    (
        "CLASS",
        "def initial(self):\n    return [{'shades': {'home': True}}]",
        "has the elements home, work, not home",
    ),
    (
        "CLASS",
        "def initial(self):\n    return [{'n': free}]\n\ndef initially(self, s):\n    return s.n > 4",
        "holds in none of the states",
    ),
    (
        "CLASS",
        "def initial(self):\n    return [{}]\n\ndef initially(self, s):\n    return s.n",
        "it returns a condition",
    ),
    (
        "CLASS",
        "def initial(self):\n    return [{}]\n\ndef initially(self, s):\n    return require('x', s.n > 0)",
        "only looks",
    ),
    (
        "CLASS",
        "liveness = (eventually('x', fair=weak('cout'))(lambda m, s: s.on),)",
        "'cout' fair, which is no action of",
    ),
    (
        "CLASS",
        "liveness = (eventually('x', fair=weak('act', by=['broker']))(lambda m, s: s.on),)",
        "act have no parameter 'broker'",
    ),
    (
        "CLASS",
        "liveness = (eventually('x', fair=strong('act', again=False))(lambda m, s: s.on),)",
        "no parameter 'again'",
    ),
    (
        "CLASS",
        "liveness = (eventually('x', fair=weak('count', when=lambda m, s: require('x', s.on)))(lambda m, s: s.on),)",
        "writes or requires something",
    ),
    ("CLASS", "liveness = (leads_to('x', name='live')(lambda m, s: s.on),)", "returns (premise, goal)"),
    (
        "CLASS",
        "liveness = (leads_to('x', name='live')(lambda m, s, n: (s.on, s.on)),)",
        "parameter 'n' of liveness property live has",
    ),
    (
        "CLASS",
        "liveness = (eventually('x', name='live', n='node')(lambda m, s: s.on),)",
        "gives 'n' a domain, and its function has no",
    ),
    (
        "CLASS",
        "liveness = (eventually('x', name='live', n='nods')(lambda m, s, n: s.on),)",
        "ranges over 'nods', which define() does",
    ),
    (
        "CLASS",
        "liveness = (leads_to_always('x', name='live')(lambda m, s: s.on),)",
        "leads-to-always property live returns (premise, goal)",
    ),
    (
        "CLASS",
        "liveness = (always_eventually('x', name='live')(lambda m, s: (s.on, s.on)),)",
        "live returns the goal",
    ),
    ("CLASS", "liveness = (eventually('x')(lambda m, s: [s.on]),)", "it returns a condition"),
    ("CLASS", "liveness = (eventually_always('x')(lambda m, s: []),)", "returned no goal at all"),
    ("CLASS", "liveness = (eventually_always('x')(lambda m, s: s.at),)", "it returns a condition"),
    (
        "CLASS",
        "invariants = (reachable('x', name='goal')(lambda m, s: s.on),)",
        "goal of Mine: `reachable` lists what @reachable marks",
    ),
    (
        "CLASS",
        "reachable = (invariant('x', name='goal')(lambda m, s: s.on),)",
        "goal of Mine: `reachable` lists what @reachable marks",
    ),
    ("CLASS", "own = reachable('x')(lambda m, s: s.on)", "own is not among the reachable goals"),
    ("TOP", "reachable('x')(lambda m: True)", "is a function of"),
    # comparisons of Python objects
    ("TOP", "@step_property('x')\ndef p(m, before, after):\n    return after.o is None", "after.o is None"),
    ("TOP", "@eventually('x')\ndef p(m, state):\n    return state.on is True", "state.on is True"),
    (
        "CLASS",
        "@action(p='node', q='node')\ndef bad(self, s, p, q):\n    require('x', p is not q)",
        "'p is not q' asks which Python object p is: write ==",
    ),
    ("SMALL", "return all(s.row[i] is not s.row[0] for i in m.node)", "s.row[i] is not"),
    (
        "SMALL",
        "return all_of(s.row[a] != 1 for a in m.node for b in m.node if a is not b)",
        "'a is not b' asks",
    ),
    ("SMALL", "option = s.o\nreturn option is None", "write option.is_none, or =="),
    ("SMALL", "return (option := s.o) is None or option.value == 1", "asks which Python object s.o is"),
    # properties
    ("SMALL", "s.n <= m.p.top", "returned None; it returns a condition"),
    ("SMALL", "assert s.n <= 2", "write where"),
    ("SMALL", "for i in m.node:\n    return s.row[i] <= 2", "write all_of(… for …)"),
    ("SMALL", "return [s.n <= 2]", "it returns a condition"),
    ("SMALL", "return m.n <= s.p.top", "the state's fields are s.…"),
    ("SMALL", 'require("x", s.n <= 2)\nreturn s.n <= 2', "it only looks"),
    ("SMALL", "s.next.n = 1\nreturn s.n <= 2", "it only looks"),
    ("SMALL", "yield s.on\nreturn s.n <= 2", "small yields conditions, so it cannot return one, too"),
    ("SMALL", "return all_of(s.row[i - 1] <= s.row[i] for i in m.node)", "-1 is no index"),
    ("SMALL", "return enabled('cuont')", "no action 'cuont'; it has count, act; did you mean 'count'"),
    ("SMALL", "return enabled('act', q=1)", "act has no parameter 'q'; it has p, a"),
    ("SMALL", "return under('carefull', s.on)", "no rule 'carefull'"),
    ("ACT", "require('x', enabled('count'))", "enabled() asks about actions, in a property"),
    ("ACT", "require('x', s.on, rule='carefull')", "no rule 'carefull'"),
    ("TOP", "one_of('n', [1])", "one_of() has a meaning only while"),
    ("TOP", "refines('Light')", "names the protocol that is implemented"),
    # blocks that are left
    (
        "ACT",
        "with when(s.on):\n    s.next.n = 1\n    return",
        "'return' leaves a `with when(…):` block in every",
    ),
    (
        "ACT",
        "for n in self.node:\n    with when(s.g):\n        break",
        "'break' leaves a `with when(…):` block",
    ),
    (
        "ACT",
        "for n in self.node:\n    with when(s.g):\n        pass\n    with otherwise(\n        s.on,\n    ):\n"
        "        if n == 0:\n            continue",
        "'continue' leaves a `with when(…):` block",
    ),
    (
        "ACT",
        "with when(s.g):\n    for n in self.node:\n        s.next.n = 1\n        return",
        "'return' leaves",
    ),
    # divisions
    (
        "CLASS",
        "liveness = (leads_to('x', fair=weak('count', when=lambda m, s: 4 // s.n > 1))(lambda m, s: (s.on, s.on)),)",
        "divides by what can be zero: put the case in a where()",
    ),
    # steps that are errors in some states
    ("ACT", "s.next.log[1] = 1", "at or past the end of a Seq"),
    ("ACT", "s.next.logs[1].entries[s.n] = 1", "at or past the end of a Seq"),
    ("ACT", "s.next.n = s.n - 1", "n leaves 0..4"),
    ("ACT", "s.next.small = s.n + 3", "small leaves -1..3"),
    ("ACT", "s.next.row[s.n + 1] = 1", "index outside 0..2 of Array"),
    ("ACT", "s.next.who = s.who.with_(s.n + 1)", "who leaves 0..7"),
    ("ACT", "s.next.n = 3 // s.n", "// or % by zero"),
    ("ACT", "s.next.row[s.node] = 1; s.next.row[s.disk + 0] = 2", "a field a second time; the first time at"),
    # fields under a rule
    ("HEAD", "pair = Struct('Pair', a=Bool, b=Only(3, True))", "field 'b' of Pair needs a type"),
]
"""Where the mistake stands, its text, and a part of the error message that says what to write."""
PLACES = {"ACT": 8, "DEFINE": 8, "HEAD": 8, "CLASS": 4, "TOP": 0, "SMALL": 4}
"""The indentation of the text."""
HEADS = {"ACT": 3, "DEFINE": 0, "HEAD": 1, "CLASS": 4, "TOP": 0, "SMALL": 3}
"""The lines above the text on which the error may stand: the head of the function or of the class."""


def written(where: str, text: str) -> tuple[str, range]:
    """The protocol with this text at a place, and the numbers of the lines on which its error may stand."""
    mark = "    return s.n <= m.p.top\n" if where == "SMALL" else f"@{where}\n"
    whole = MINE.replace(mark, textwrap.indent(text, " " * PLACES[where]) + "\n")
    first = MINE[: MINE.index(mark)].count("\n") + 1
    lines = range(first - HEADS[where], first + 3 + text.count("\n"))
    return re.sub(r"^@(?:ACT|DEFINE|HEAD|CLASS|TOP)\n", "\n", whole, flags=re.M), lines


@pytest.mark.parametrize(("where", "text", "remedy"), MISTAKES, ids=[text for _, text, _ in MISTAKES])
def test_a_mistake_names_its_line_and_what_to_write(
    tmp_path: Path, where: str, text: str, remedy: str
) -> None:
    file = tmp_path / "mine.py"
    whole, lines = written(where, text)
    file.write_text(whole, encoding="utf-8")
    run = highwater("check", file, "--engine", "interpreter")
    assert run.status == 2, run
    assert run.err.count("\n") == 1
    place = re.search(r"mine\.py:(\d+): ", run.err)
    assert place is not None, run.err
    assert remedy in run.err
    assert int(place[1]) in lines, run.err


ACCEPTED = [
    ("ACT", "self.record(s, 2)"),
    ("ACT", "seen.append(1); seen[0] = 2"),
    ("ACT", "s.next.msgs.receive(a)"),
    ("ACT", "n = s.n + 1; s.next.n = n - 1"),
    ("ACT", "left_over = s.who.has(p) & all_of([s.on])"),
    ("ACT", "_ = one_of('x', [1, 2])"),
    ("ACT", "with when(a.prev > 0): s.next.row[a.prev - 1] = s.log[a.prev - 1]"),
    ("CLASS", "def _later(self, s):\n    s.next.n = 1"),
    ("SMALL", "for i in m.node:\n    yield s.row[i] <= 2"),
    ("SMALL", "for i in m.node:\n    if i == 1:\n        return s.row[i] <= 2"),
    ("SMALL", "rule = None\nreturn s.on | (rule is None) | (m.p is not None)"),
    ("SMALL", "return all_of((i == 0) | implies(s.row[i - 1] == 2, s.row[i] <= 2) for i in m.node)"),
    # a constant index that is outside, under a guard: as Raft's prevLogIndex - 1
    ("ACT", 'require("", (p == 0) | (s.log[p - 1] == 2))'),
    ("ACT", "s.next.row = where(p == 0, s.row, s.row.set(p - 1, s.log[p - 1]))"),
    ("ACT", 'require("", implies(p > 0, implies(s.row[p - 1] == 2, s.g)))'),
    ("ACT", 'require("", s.log[p - 1] == 2); require("positive", p > 0)'),
    ("ACT", "with when(s.g & (p > 0)): s.next.row[p - 1] = 1"),
    # constants behave as in Python
    (
        "ACT",
        "one, two, red = self.node.lift(1), self.node.lift(2), self.place.home\n"
        "assert [int(x) for x in (two * 3, two // 2, (two + one) % 3, -two, 7 % two, 2 * one)] == [6, 1, 0, -2, 1, 2]\n"
        "assert {0: 'a', 1: 'b'}[one] == 'b' and one in {1, 2} and one in (0, 1) and not two == 1\n"
        "assert f'{two} {red} {two:03}' == '2 home 002' and sorted([two, one])[0] is one",
    ),
    # what is inside or around a block can end early
    ("ACT", "for n in self.node:\n    if n == 0: continue\n    with when(s.g): s.next.row[n] = 1\n    break"),
    ("ACT", "with when(s.g):\n    for n in self.node:\n        if n == 1: break\n        s.next.row[n] = 1"),
]


@pytest.mark.parametrize(("where", "text"), ACCEPTED, ids=[text for _, text in ACCEPTED])
def test_what_looks_like_a_mistake_is_accepted(tmp_path: Path, where: str, text: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(written(where, text)[0], encoding="utf-8")
    run = highwater("check", file, "--engine", "interpreter", "--limit-states", "50")
    assert run.status in (0, 3), run
