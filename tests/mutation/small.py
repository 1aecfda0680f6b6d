"""Small protocols whose mutants are asked, and the command that asks."""

from __future__ import annotations

from click.testing import CliRunner, Result

from highwater.checker.cli import cli


def run(*arguments: object) -> Result:
    """The command in this process; what it asks of scenarios is asked in another one."""
    return CliRunner().invoke(cli, ["mutate", *map(str, arguments), "--workers", "1"], catch_exceptions=False)


LAMP = '''
from highwater.model.language import Bool, Protocol, State, Struct, action, eventually, require, weak


@eventually("test", fair=weak("switch"))
def it_gets_light(m, s):
    """Somebody switches it on."""
    return s.on


class Lamp(Protocol):
    """A lamp."""

    name = "lamp"
    liveness = (it_gets_light,)

    def define(self):
        """On or off, looked at or not."""
        return Struct("State", on=Bool, seen=Bool)

    def initial(self):
        """Off."""
        return [{}]

    @action(says="it is switched on")
    def switch(self, s):
        """Once."""
        require("it is off", ~s.on)
        s.next.on = True

    @action(says="it is looked at")
    def look(self, s):
        """At any time."""
        s.next.seen = True
'''


LAMP_WITH_INVARIANT = (
    LAMP.replace(
        "class Lamp(Protocol):",
        '''@invariant("test")
def it_is_seen_by_its_light(m, s):
    """Nobody sees it in the dark."""
    return ~s.seen | s.on


class Lamp(Protocol):''',
    )
    .replace("eventually, ", "eventually, invariant, ")
    .replace("    liveness =", "    invariants = (it_is_seen_by_its_light,)\n    liveness =")
    .replace("        s.next.seen = True", '        require("it is on", s.on)\n        s.next.seen = True')
)
