"""Where a model came from, so that a file can say it in a few words and build the equal model again.

::

    gpt2                                                   a built-in model as published
    {name: gpt2, layers: 4, seq: 512}                      with other dims
    {name: gpt2, resized: {vocab: 50304}}                  built, and then a dim given another size
    {name: mine, hf: {model_type: llama, ...}, seq: 4096}  a Hugging Face config, the fields that matter

:func:`proteus.model.zoo.rebuild` builds the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from proteus.errors import InputError

#: characters of JSON; the essential fields of a Hugging Face config take less than a thousand
MAX_ORIGIN_CHARS = 20_000
#: keys of the written form that are no dims of a zoo model
NAME, HF, SEQ, RESIZED = "name", "hf", "seq", "resized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The call that built a model.

    Parameters
    ----------
    kind
        ``zoo``: :func:`proteus.model.zoo.load`; ``hf``:
        :func:`proteus.model.hf.from_hf`.
    name
        The model's name: of the zoo, or what the config calls itself.
    text
        Arguments of the call, as JSON: the changed dims of a zoo model
        (``seq`` among them), or the fields of a config; use :attr:`values`.
    seq
        Tokens per sample that the caller of ``from_hf`` gave; None where the
        config decided, and for the zoo, whose `values` hold it.
    resized
        Dims with another size since, e.g. a padded vocabulary.

    Examples
    --------
    >>> Origin.of("zoo", "gpt2", {"layers": 4}).plain()
    {'name': 'gpt2', 'layers': 4}
    >>> Origin.parse({"name": "gpt2", "layers": 4}).values
    {'layers': 4}
    """

    kind: Literal["zoo", "hf"]
    name: str
    text: str = "{}"
    seq: int | None = None
    resized: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(
        cls, kind: Literal["zoo", "hf"], name: str, values: Mapping[str, Any], *, seq: int | None = None
    ) -> Origin | None:
        """The origin with plain `values`; None where they are too large to be written into another file."""
        text = json.dumps(dict(values), sort_keys=True, allow_nan=False)
        return cls(kind=kind, name=name, text=text, seq=seq) if len(text) <= MAX_ORIGIN_CHARS else None

    @property
    def values(self) -> dict[str, Any]:
        """Arguments of the call, as plain values."""
        values: dict[str, Any] = json.loads(self.text)
        return values

    def with_resized(self, dim: str, size: int) -> Origin:
        """The origin of the same model after one of its dims was given another size."""
        return replace(self, resized=tuple(sorted({**dict(self.resized), dim: size}.items())))

    def with_seq(self, seq: int) -> Origin:
        """The origin of the same model at another sequence length."""
        if self.kind == "hf":
            return replace(self, seq=seq)
        return replace(self, text=json.dumps(self.values | {SEQ: seq}, sort_keys=True))

    def plain(self) -> str | dict[str, Any]:
        """As YAML and JSON carry it; :meth:`parse` reads it back."""
        values = self.values
        if self.kind == "hf":
            row = {NAME: self.name, HF: values} | ({} if self.seq is None else {SEQ: self.seq})
        else:
            row = {NAME: self.name} | values
        if self.resized:
            row[RESIZED] = dict(self.resized)
        return self.name if row == {NAME: self.name} else row

    @classmethod
    def parse(cls, value: Any) -> Origin:
        """The origin that a file states: a name, or a mapping with ``name`` and what differs.

        Raises
        ------
        InputError
            Not of that form.  That a name or a dim exists is checked when
            the model is built.
        """
        if isinstance(value, str):
            return cls(kind="zoo", name=value)
        if not isinstance(value, Mapping) or not isinstance(value.get(NAME), str):
            raise InputError(
                f"model: expected a name, or a mapping with a name such as {{name: gpt2, layers: 4}}{_not(value)}"
            )
        rest: dict[Any, Any] = {key: item for key, item in value.items() if key not in (NAME, RESIZED)}
        strange = next((key for key in rest if not isinstance(key, str)), None)
        if strange is not None:
            raise InputError(f"model: field {strange!r} must be a word")
        seq = None
        kind: Literal["zoo", "hf"] = "zoo"
        if HF in rest:
            kind, seq, config = "hf", rest.pop(SEQ, None), rest.pop(HF)
            if rest:
                raise InputError(f"model: field {min(rest)!r} beside {HF}; put it into {HF}, or leave it out")
            if not isinstance(config, Mapping):
                raise InputError(f"model: {HF} must hold the fields of a Hugging Face config{_not(config)}")
            if seq is not None and not _is_size(seq):
                raise InputError(f"model: {SEQ} must be a whole number of at least 1{_not(seq)}")
            rest = dict(config)
        resized = value.get(RESIZED, {})
        if not isinstance(resized, Mapping) or not all(isinstance(k, str) and _is_size(v) for k, v in resized.items()):
            raise InputError(
                f"model: {RESIZED} must name dims and their sizes, for example {{vocab: 50304}}{_not(resized)}"
            )
        try:
            origin = cls.of(kind, value[NAME], rest, seq=seq)
        except (TypeError, ValueError, RecursionError) as error:  # bytes, sets, dates, keys of several types, a cycle
            raise InputError(f"model: holds a value that no file can carry: {error}") from None
        if origin is None:
            raise InputError(f"model: is longer than {MAX_ORIGIN_CHARS} characters; keep the fields that say sizes")
        return replace(origin, resized=tuple(sorted(resized.items())))


def is_plain(value: Any) -> bool:
    """Whether a value can be written into a file as it is: finite numbers, words, lists and mappings."""
    try:
        json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _not(value: Any) -> str:
    shown = repr(value)
    return f"; it is {shown if len(shown) <= 60 else type(value).__name__}"
