"""The engine: a graph of tasks in, a timeline out.

``tasks`` says what is played, ``reference`` how (plain Python, the meaning
itself), ``kernel`` and ``engine`` do the same at millions of tasks per second.
"""
