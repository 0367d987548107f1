"""Which strategy is fastest: enumerate, prune by rules and memory, rank by simulation."""

from proteus.search.search import Found, Search, search

__all__ = ["Found", "Search", "search"]
