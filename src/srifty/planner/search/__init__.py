"""Branch and bound over cluster configurations: the best one, or how far from it at most."""

from srifty.planner.search.branch_and_bound import Outcome, search
from srifty.planner.search.place import Place
from srifty.planner.search.time_bound import TableKey

__all__ = ["Outcome", "Place", "TableKey", "search"]
