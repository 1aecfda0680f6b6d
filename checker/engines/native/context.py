"""The context of compiled functions: an array of i64, with a field for each argument, result and buffer."""

from __future__ import annotations

CONTEXT = {
    name: place
    for place, name in enumerate(
        (
            "table",  # pointer to the slots
            "capacity",  # the number of home slots; SLACK more slots follow
            "states",  # the states to expand, packed
            "start",  # the index of the next state to expand; @expand advances it
            "end",  # the index after the last state to expand
            "base",  # the index of states[0] in its level
            "out_states",  # new states, packed
            "out_predecessors",  # the predecessor of each new state
            "out_count",  # the number of new states
            "out_capacity",  # the room for new states
            "candidates",  # space for a batch of candidates
            "margin",  # the most new states that a batch and one more call of @successors can add
            "counts",  # the number of steps, by instance
            "cuts",  # the number of pruned steps, by bound
            "premises",  # the number of states or steps whose premise holds, by property
            "known",  # bits of the invariants whose violation was recorded
            "violations",  # pairs: index in out_states, bits
            "violation_count",
            "error",  # the check by which a step left a type (see @successors); 0: none
            "want_deadlock",  # 1 to search for states without a step
            "deadlock",  # the index of the first state without a step, or -1
            "full",  # 1 if the table's slack is used up
            "seed",  # the seed of the walk
            "walk_depth",  # the most steps of the walk
            "walk_length",  # the number of steps that the walk took
            "walk_path",  # the instances of the walk's steps
            "judging",  # 1 to check the properties of new states
            "known_steps",  # bits of the step properties whose violation was recorded
            "broken_steps",  # pairs: predecessor field of the candidate, bits
            "broken_count",
            "rows",  # where to write new candidates as rows; 0: states are written instead
            "marks",  # a bit for each slot of the table: 1 if its state was visited
            "lost",  # 1 + the index of a row or state for which a look-up in the table failed
            "stuck",  # the first state without a step that @successors has expanded; at least their number: none
            "cut_bits",  # for each such state: a bit for each instance, 1 if its step was pruned; 0: not wanted
            "cut_words",  # the number of words of these bits, for each state
            # Fields of the common kernel.
            "at_once",  # the number of states that one call of @successors expands
            "code",  # the instructions
            "bodies",  # for each instance, in the order of the guards: its first instruction
            "instances",  # the number of instances
            "judge",  # the first instruction of the invariants
            "large",  # for each large step property: its first instruction
            "large_count",  # their number
            "large_read",  # for each of them: the bits of a state that it reads
            "chosen",  # the numbers of the candidates for which one of them is checked
            "columns",  # for each column: its number in each lane
            "masks",  # for each mask: a bit for each lane
            "first",  # the index of the state in the first lane
            "enabled",  # a bit for each lane: 1 if the guards of some step hold
            "enabled_counts",  # for each instance: the number of states in which its guards hold
            "enabled_states",  # for each instance: these states
            "lane_states",  # for each lane: the state
            "lane_bits",  # for each lane: the properties that are violated
            "broken_lanes",  # a bit for each lane whose state violates an invariant
            "staged",  # the candidates in the order of the instances
            "staged_states",  # the source state of each of them
            "staged_count",
            "candidate_counts",  # for each state: the number of its candidates, then the place of the next one
            "error_at",  # the state from which the step with the error starts
            "outputs",  # the address of each output
            # Fields of linking.
            "numbers",  # for each slot of the table: the number of its state, 32 bits
            "exact",  # 1 to compare step targets with the stored states word by word
            "mixed",  # 1 + the number of a state that shares its fingerprint with another state
            "out_targets",  # for each step: its target state
            "out_instances",  # for each step: its instance
            "out_steps",  # the number of steps written
            "out_step_counts",  # for each state from start on: its number of steps
            "out_cuts",  # the instance of each pruned step
            "out_cut_total",  # the number of pruned instances written
            "out_cut_counts",  # for each state from start on: its number of pruned steps
        )
    )
}
LANES = 64
"""The number of states on which an instruction of the common kernel computes."""


def cut_words(instances: int) -> int:
    """The number of words for a bit of each instance."""
    return -(-instances // 64)
