"""Which strategy is fastest: enumerate, prune by rules and memory, rank by simulation."""

from proteus.search.found import Found, Search
from proteus.search.search import search

__all__ = ["Found", "Search", "search"]
