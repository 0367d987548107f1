"""A key that compares values by identity: for what is made once, is costly to compare, and is looked up often."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Same(Generic[T]):
    """Equal to another :class:`Same` of the very same object; keeps the object alive.

    >>> value = [1]
    >>> Same(value) == Same(value), Same(value) == Same([1])
    (True, False)
    """

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value
