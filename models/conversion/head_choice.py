"""Chooses the heads that get a wide ring: those that cost most to code, until what the others cost is bearable."""

from typing import Dict, List

from models.conversion.config import Head
from models.conversion.head_costs import Costs

BEARABLE = 0.005  # share of a text's bits
CERTAIN, BEARABLE_NATS = 0.5, 0.1  # for a text of fewer nats per token, so many nats in place of the share, which would be tiny
MOST = 6  # at most one of so many heads is chosen


def bearable(costs: Costs) -> Dict[str, float]:
    """The bearable cost in nats per token, by text."""
    return {name: BEARABLE * base if base > CERTAIN else BEARABLE_NATS for name, base in costs.base.items()}


def order(costs: Costs) -> List[Head]:
    """Heads sorted by cost, the highest first: the sum over texts of a head's cost divided by the bearable cost."""
    limits = bearable(costs)

    def dear(head: Head) -> float:
        return sum(max(0.0, costs.more[head][name]) / limit for name, limit in limits.items())

    return sorted(costs.more, key=lambda head: (-dear(head), head))


def estimate(costs: Costs, chosen) -> Dict[str, float]:
    """The estimated cost of coding all heads but the chosen, by text: the sum of what each costs alone.

    A cost below 0 counts as 0: such heads do not help when they are coded together.
    """
    return {name: sum(max(0.0, more[name]) for head, more in costs.more.items() if head not in chosen) for name in costs.base}


def is_bearable(costs: Costs, chosen) -> bool:
    limits = bearable(costs)
    return all(cost < limits[name] for name, cost in estimate(costs, chosen).items())


def choose(costs: Costs, most: int = None) -> List[Head]:
    """The `most` most expensive heads. None: as few as make the cost of the others bearable, at most one in MOST."""
    ordered = order(costs)
    if most is not None:
        return ordered[:most]
    chosen: List[Head] = []
    while len(chosen) < len(ordered) // MOST and not is_bearable(costs, set(chosen)):
        chosen.append(ordered[len(chosen)])
    return chosen
