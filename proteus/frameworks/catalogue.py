"""The frameworks that Proteus knows: ``frameworks.load("nemo@24.07, attention=flash2")``."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

from proteus.errors import InputError, context, unknown
from proteus.frameworks.framework import KINDS, Definition, Framework, build
from proteus.frameworks.reader import MAX_FILE_BYTES, NAME, parse
from proteus.frameworks.rules import FACTS, version_text

#: the framework of a strategy that names none: plain code, not a vendor's tuned recipe
DEFAULT = "megatron-core"
_ENDINGS = (".yaml", ".yml")


@cache
def names() -> tuple[str, ...]:
    """Names of all known frameworks."""
    folder = resources.files("proteus.frameworks").joinpath("data")
    return tuple(sorted(path.name.removesuffix(".yaml") for path in folder.iterdir() if path.name.endswith(".yaml")))


def load(text: str = DEFAULT) -> Framework:
    """The framework that a text names.

    Parameters
    ----------
    text
        Name or alias, or the path of a YAML file; then ``@`` and a version
        where one is meant, and ``field=value`` for what is otherwise, as in
        ``nemo@24.07, attention=flash2, compile=true``.

    Raises
    ------
    InputError
        An unknown name, field or value, with the nearest that are known.

    >>> load("NVIDIA NeMo@24.07").name, load("hf").name
    ('nemo', 'huggingface')
    """
    is_file = text.partition(",")[0].partition("@")[0].strip().lower().endswith(_ENDINGS)
    return _load(text) if is_file else _loaded(text)


@cache
def _loaded(text: str) -> Framework:
    return _load(text)


def _load(text: str) -> Framework:
    head, *changes = (part.strip() for part in text.split(","))
    name, at, version = (part.strip() for part in head.partition("@"))
    if at and not version:
        raise InputError(f"framework {text!r}: no version after @")
    with context(f"framework {text!r}"):
        framework = build(_named(name), version, (), ())
        fields: dict[str, object] = {}
        facts: dict[str, object] = {}
        for change in changes:
            field, equals, value = (part.strip() for part in change.partition("="))
            if not equals:
                raise InputError(f"{change!r} changes nothing; write field=value")
            if field in facts or field in fields:
                raise InputError(f"{field} is given twice; keep one")
            if field in FACTS:
                facts[field] = FACTS[field].parse(field, value)
            elif field in KINDS:
                fields[field] = KINDS[field].parse(field, value)
            else:
                raise InputError(unknown("framework field", field, (*KINDS, *FACTS)))
        return framework.given(**facts).but(**fields)


def find(text: str, version: str = "") -> Framework | None:
    """The framework that a free text means, such as ``"Megatron-LM v2.x"``; None where none is named.

    Of several that it names the first counts, and of names that begin alike the longest.

    >>> find("NeMo (Megatron-Core)", "NeMo 24.05").text, find("something new")
    ('nemo@24.05', None)
    """
    plain = f"-{_plain(text)}-"
    at = [(plain.find(f"-{alias}-"), -len(alias), name) for alias, name in _aliases().items()]
    best = min((item for item in at if item[0] >= 0), default=None)
    if best is None:
        return None
    return build(definition(best[2]), version_text(version), (), ())


def read(path: str) -> Definition:
    """The definition in a user's own file."""
    if any(sign in path for sign in ",@"):
        raise InputError(f"{path}: a framework's file has neither comma nor @ in its path")
    file = Path(path)
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path}: more than {MAX_FILE_BYTES} bytes; a framework's file is shorter")
        text = file.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text, at byte {error.start}") from None
    return replace(parse(text, path, _like), origin=path)


@cache
def definition(name: str) -> Definition:
    """What the catalogue's file of that name says."""
    text = resources.files("proteus.frameworks").joinpath(f"data/{name}.yaml").read_text("utf-8")
    return parse(text, f"{name}.yaml", _like)


def _named(name: str) -> Definition:
    if name.lower().endswith(_ENDINGS):
        return read(name)
    plain = _plain(name)
    if NAME.fullmatch(plain) and plain in names():
        return definition(plain)
    if plain not in _aliases():
        raise InputError(unknown("framework", name, _aliases()))
    return definition(_aliases()[plain])


def _like(text: str) -> tuple[Definition, str]:
    name, _, version = (part.strip() for part in text.partition("@"))
    if name not in names():
        raise InputError(unknown("framework", name, names()))
    return definition(name), version


@cache
def _aliases() -> dict[str, str]:
    """Plain form of every name and alias -> name."""
    name_of_alias: dict[str, str] = {}
    for name in names():
        for alias in (name, *definition(name).aliases):
            known_name = name_of_alias.setdefault(_plain(alias), name)
            assert known_name == name, f"alias {alias!r} means both {known_name} and {name}"
    return name_of_alias


def _plain(text: str) -> str:
    """Small letters and digits, with dashes between.

    >>> _plain("PyTorch  FSDP")
    'pytorch-fsdp'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
