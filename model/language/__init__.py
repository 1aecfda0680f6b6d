"""The language in which protocols are written. It contains nothing about Kafka.

It has types (Bool, Int, Index, Enum, Set, Option, Array, Struct, Seq), symbolic values with Python's operators, a few
functions (where, all_of, any_of, size, …), named guards (require), actions and invariants.

In: a protocol's class and its properties. Out: a Model, which is the protocol traced once into an expression graph.
Every engine reads that graph.
"""

from highwater.model.language.declarations import Profile
from highwater.model.language.drawing import Band, Delivery, Drawing, Lane, Log, Message, Sign
from highwater.model.language.errors import LanguageError
from highwater.model.language.initial import free
from highwater.model.language.liveness import (
    Liveness,
    always_eventually,
    either,
    eventually,
    eventually_always,
    leads_to,
    leads_to_always,
    strong,
    tagged,
    weak,
)
from highwater.model.language.messages import Messages
from highwater.model.language.model import Model
from highwater.model.language.protocol import (
    Action,
    Budgets,
    Invariant,
    Parameter,
    Protocol,
    Rule,
    action,
    invariant,
    reachable,
    spend,
)
from highwater.model.language.refinement import refines
from highwater.model.language.rulebook import Rulebook
from highwater.model.language.state import State
from highwater.model.language.step_properties import StepProperty, step_property
from highwater.model.language.tracing import Checks, enabled, implies, one_of, otherwise, require, under, when
from highwater.model.language.types import (
    Array,
    ArrayValue,
    Bool,
    Enum,
    Index,
    Int,
    Number,
    Only,
    Option,
    OptionValue,
    Seq,
    SeqValue,
    Set,
    SetValue,
    Struct,
    StructValue,
    Truth,
    all_of,
    any_of,
    as_bool,
    cases,
    first,
    greatest,
    least,
    least_by,
    size,
    total,
    where,
)

__all__ = [
    "Action", "Array", "ArrayValue", "Band", "Bool", "Budgets", "Checks", "Delivery", "Drawing", "Enum", "Index", "Int",
    "Invariant", "Lane", "LanguageError", "Liveness", "Log", "Message", "Messages", "Model", "Number", "Only",
    "Option", "OptionValue", "Parameter", "Profile", "Protocol", "Rule", "Rulebook", "Seq", "SeqValue", "Set",
    "SetValue", "Sign", "State", "StepProperty", "Struct", "StructValue", "Truth", "action", "all_of",
    "always_eventually", "any_of", "as_bool", "cases", "either", "enabled", "eventually", "eventually_always",
    "first", "free", "greatest", "implies", "invariant", "leads_to", "leads_to_always", "least", "least_by",
    "one_of", "otherwise", "reachable", "refines", "require", "size", "spend", "step_property", "strong", "tagged",
    "total", "under", "weak", "when", "where",
]  # fmt: skip
