"""Keys of what is remembered: values compared by identity, or by what is said of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Same(Generic[T]):
    """For what is made once and costly to compare: equal to another :class:`Same` of the very same object.

    It keeps the object alive.

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


class Keyed(Generic[T]):
    """Equal to another :class:`Keyed` of an equal key; keeps the value alive, so a key may name parts of it by id.

    >>> Keyed([1], "one") == Keyed([1, 1], "one"), Keyed([1], "one") == Keyed([1], "two")
    (True, False)
    """

    __slots__ = ("_hash", "key", "value")

    def __init__(self, value: T, *key: Hashable) -> None:
        self.value, self.key = value, key
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and other.key == self.key
