"""Fits the operator curves that ``proteus.costs`` ships, and scores them."""
