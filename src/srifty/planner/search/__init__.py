"""Branch and bound over cluster configurations: the best one, or how far from it at most."""

from srifty.planner.search.branch_and_bound import Outcome, search
from srifty.planner.search.place import Place

__all__ = ["Outcome", "Place", "search"]
