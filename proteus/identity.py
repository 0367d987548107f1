"""Keys of what is remembered: values compared by identity, or by what is said of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class ById(Generic[T]):
    """For what is made once and costly to compare: equal to another :class:`ById` of the very same object.

    It keeps the object alive.

    >>> value = [1]
    >>> ById(value) == ById(value), ById(value) == ById([1])
    (True, False)
    """

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and other.value is self.value


class MemoKey(Generic[T]):
    """Equal to another :class:`MemoKey` of an equal key; keeps the value alive, so a key may name parts of it by id.

    >>> MemoKey([1], "one") == MemoKey([1, 1], "one"), MemoKey([1], "one") == MemoKey([1], "two")
    (True, False)
    """

    __slots__ = ("_hash", "key", "value")

    def __init__(self, value: T, *key: Hashable) -> None:
        self.value, self.key = value, key
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoKey) and other.key == self.key
