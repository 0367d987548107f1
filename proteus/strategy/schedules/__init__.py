"""Pipeline schedules as data: plans, their patterns, grids of text, checks and unit times.

Use them through :mod:`proteus.strategy.schedule`.
"""
