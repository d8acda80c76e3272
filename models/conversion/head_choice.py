"""Which heads get a wide ring: those that cost most to code, until what the others cost is bearable."""

from typing import Dict, List

from models.conversion.config import Head
from models.conversion.head_costs import Costs

BEARABLE = 0.005  # of a text's bits
CERTAIN, BEARABLE_NATS = 0.5, 0.1  # a text of fewer nats a token is nearly known, and a share of them next to nothing
MOST = 6  # one of so many heads at most


def bearable(costs: Costs) -> Dict[str, float]:
    """Nats of a token, by text."""
    return {name: BEARABLE * base if base > CERTAIN else BEARABLE_NATS for name, base in costs.base.items()}


def order(costs: Costs) -> List[Head]:
    """The dearest first: by the sum over texts of what a head costs, as a share of what is bearable."""
    limits = bearable(costs)

    def dear(head: Head) -> float:
        return sum(max(0.0, costs.more[head][name]) / limit for name, limit in limits.items())

    return sorted(costs.more, key=lambda head: (-dear(head), head))


def estimate(costs: Costs, chosen) -> Dict[str, float]:
    """What coding all heads but the chosen costs, by text: the sum of what each costs alone.

    Heads that cost less than nothing are taken for nothing: together they do not help.
    """
    return {name: sum(max(0.0, more[name]) for head, more in costs.more.items() if head not in chosen) for name in costs.base}


def is_bearable(costs: Costs, chosen) -> bool:
    limits = bearable(costs)
    return all(cost < limits[name] for name, cost in estimate(costs, chosen).items())


def choose(costs: Costs, most: int = None) -> List[Head]:
    """`most`: so many. None: as few as make what the others cost bearable, at most one in MOST."""
    ordered = order(costs)
    if most is not None:
        return ordered[:most]
    chosen: List[Head] = []
    while len(chosen) < len(ordered) // MOST and not is_bearable(costs, set(chosen)):
        chosen.append(ordered[len(chosen)])
    return chosen
