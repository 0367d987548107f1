"""Which strategy is fastest: enumerate, prune by rules and memory, rank by simulation."""

from proteus.callable_module import make_callable
from proteus.search.found import Found, Search
from proteus.search.run import search

__all__ = ["Found", "Search", "search"]

make_callable(__name__, search)
