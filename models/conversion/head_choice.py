"""Which heads get a wide ring: those that cost most to code, until what the others cost is little."""

from typing import List

from models.conversion.config import Head
from models.conversion.head_costs import Costs

ENOUGH = 0.005  # of a text's bits, estimated, at which no more heads are chosen
MOST = 6  # one of so many heads at most


def order(costs: Costs) -> List[Head]:
    """The dearest first: by the sum over texts of a head's cost, each over the dearest head's of that text."""
    dearest = {name: max(more[name] for more in costs.more.values()) for name in costs.base}

    def dear(head: Head) -> float:
        return sum(costs.more[head][name] / most for name, most in dearest.items() if most > 0)

    return sorted(costs.more, key=lambda head: (-dear(head), head))


def estimate(costs: Costs, chosen) -> float:
    """What coding all heads but the chosen costs, as a share of the text's bits of which that is the most.

    Heads that cost less than nothing are taken for nothing: together they do not help.
    """
    return max(sum(max(0.0, more[name]) for head, more in costs.more.items() if head not in chosen) / base
               for name, base in costs.base.items())


def choose(costs: Costs, most: int = None) -> List[Head]:
    """`most`: so many. None: as few as keep the estimate below ENOUGH, at most one in MOST."""
    ordered = order(costs)
    if most is not None:
        return ordered[:most]
    chosen: List[Head] = []
    while len(chosen) < len(ordered) // MOST and estimate(costs, set(chosen)) >= ENOUGH:
        chosen.append(ordered[len(chosen)])
    return chosen
