"""The catalogue of GPUs: ``gpus.load("a100-80gb")``; one file per chip in ``chips/``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from proteus.errors import InputError, TopologyError, context, unknown
from proteus.hardware import document
from proteus.hardware.chip import Chip
from proteus.hardware.document import Board, ChipFile
from proteus.hardware.gpu import Gpu
from proteus.hardware.yamlfile import MAX_CHARACTERS, load_trusted, load_untrusted

#: words that say who made or sells a GPU, or which memory it has, and not which one it is
_NOISE = re.compile(r"nvidia|tesla|geforce|quadro|amd|instinct|radeon|graphics|hbm\d?e?")
#: the chip whose curves stand in for one of which nothing is known: the one with most measurements
DEFAULT_CHIP = "ga100"
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Catalogue:
    """All chips of a folder, and their boards by every name.

    Parameters
    ----------
    files
        By name of the chip.
    gpus
        By name of the board, in the order of the files.
    names
        Of the board, by every name and alias as :func:`_squeeze` leaves it.
    """

    files: Mapping[str, ChipFile]
    gpus: Mapping[str, Gpu]
    names: Mapping[str, str]

    @classmethod
    def of_folder(cls, folder: Traversable) -> Catalogue:
        """The chips that a folder's YAML files describe."""
        paths = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
        files: dict[str, ChipFile] = {}
        for file in paths:
            content = document.read_chip(load_trusted(file.read_text("utf-8")), file.name)
            assert file.name == f"{content.chip.name}.yaml", f"{file.name} holds the chip {content.chip.name}"
            files[content.chip.name] = content
        files = dict(sorted(files.items(), key=lambda item: _age(item[1].chip)))
        by_board: dict[str, Gpu] = {}
        names: dict[str, str] = {}
        for content in files.values():
            others = lenders(content.chip, {name: file.chip for name, file in files.items()})
            for board in content.boards:
                by_board[board.name] = content.gpu(board, others)
                for name in (board.name, *board.aliases):
                    known_board = names.setdefault(_squeeze(name), board.name)
                    assert known_board == board.name, f"alias {name!r} means both {known_board} and {board.name}"
        return cls(files=files, gpus=by_board, names=names)

    @property
    def chips(self) -> dict[str, Chip]:
        return {name: file.chip for name, file in self.files.items()}

    def boards(self) -> Iterator[Board]:
        """All boards."""
        for file in self.files.values():
            yield from file.boards

    def find(self, name: str) -> Gpu | None:
        """The GPU of that name or alias, or None."""
        known = self.names.get(_squeeze(name))
        return self.gpus[known] if known is not None else None


def lenders(chip: Chip, known: Mapping[str, Chip]) -> tuple[Chip, ...]:
    """The chips whose curves stand in for `chip`: its fallbacks, theirs, and so on; every chip once."""
    seen: dict[str, Chip] = {}
    todo = list(chip.fallback)
    while todo:
        name = todo.pop(0)
        if name == chip.name or name in seen:
            continue
        if name not in known:
            raise InputError(f"chip {chip.name}: fallback: {unknown('chip', name, known)}")
        seen[name] = known[name]
        todo += known[name].fallback
    return tuple(seen.values())


def _age(chip: Chip) -> tuple[bool, tuple[int, int], str]:
    """Order of chips in lists: NVIDIA's by compute capability, then the others by name."""
    return chip.vendor != "nvidia", chip.compute_capability or (0, 0), chip.name


@cache
def catalogue() -> Catalogue:
    """The chips that Proteus knows."""
    return Catalogue.of_folder(resources.files("proteus.hardware") / "chips")


def _squeeze(name: str) -> str:
    """The letters and digits of `name` that tell GPUs apart."""
    return re.sub(r"[^a-z0-9]", "", _NOISE.sub("", name.lower()))


def names() -> tuple[str, ...]:
    """Catalogue names of all known GPUs, chip by chip."""
    return tuple(catalogue().gpus)


def find(name: str) -> Gpu | None:
    """The GPU of that name or alias, or None.

    Case, blanks, hyphens and words like "NVIDIA" do not matter.
    """
    return catalogue().find(name)


def load(name: str) -> Gpu:
    """The GPU of that name or alias.

    Raises
    ------
    TopologyError
        The name is not known; the message lists the nearest ones.

    Examples
    --------
    >>> load("NVIDIA A100-SXM4-80GB").name
    'a100-80gb'
    >>> load("h100").peak_flops["bf16"]
    989000000000000.0
    """
    gpu = find(name)
    if gpu is None:
        known = [alias for board in catalogue().boards() for alias in (board.name, *board.aliases)]
        raise TopologyError(f"{unknown('GPU', name, known)}; a YAML file may describe it (docs/how-to/add-a-gpu.md)")
    return gpu


def read(path: str | os.PathLike[str], name: str | None = None) -> Gpu:
    """A GPU of your own, from a YAML file.

    The file either describes a whole chip, as those of the catalogue do, or
    a board that is like a known one but for what it says.
    ``docs/how-to/add-a-gpu.md`` shows both.

    Parameters
    ----------
    path
        Of the file.
    name
        Which board, where the file describes several.

    Raises
    ------
    InputError
        The file cannot be read, has an unknown key, or a value that cannot be.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_CHARACTERS:
            raise InputError(f"{path}: {file.stat().st_size:,} bytes; a GPU's file has at most {MAX_CHARACTERS:,}")
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8 (byte {error.start}); is it a GPU's YAML?") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    with context(os.fspath(path)):
        values = load_untrusted(text)
        if isinstance(values, dict) and "chip" not in values:
            return _like(values, name)
        content = document.read_chip(values, "the chip")
        boards = {board.name: board for board in content.boards}
        if name is None and len(boards) > 1:
            raise InputError(f"{len(boards)} boards; say which: read(path, name), name one of {', '.join(boards)}")
        name = next(iter(boards)) if name is None else name
        if name not in boards:
            raise InputError(unknown("board", name, boards))
        return content.gpu(boards[name], lenders(content.chip, catalogue().chips))


def _like(values: dict[str, object], name: str | None) -> Gpu:
    if "gpu" not in values or "like" not in values:
        raise InputError(
            "it needs either chip (a whole chip), or gpu and like (a board as another but for what differs)"
        )
    like, board = document.read_like(values, "the GPU")
    if name not in (None, board.name):
        raise InputError(unknown("board", str(name), [board.name]))
    known = load(like)
    differs = {key: value for key, value in board.sheet.items() if key != "peak_flops"}
    peaks = {**known.peak_flops, **board.sheet.get("peak_flops", {})}
    source = f"{board.sheet.get('source', 'stated by the user')}; otherwise as {known.name}: {known.source}"
    return replace(known, **{**differs, "name": board.name, "peak_flops": peaks, "source": source})


def resolve(gpu: str | os.PathLike[str] | Gpu) -> Gpu:
    """The GPU that a name, the path of a YAML file, or a GPU itself means.

    >>> resolve("h100") is resolve(load("h100"))
    True
    """
    if isinstance(gpu, Gpu):
        return gpu
    if isinstance(gpu, os.PathLike) or (isinstance(gpu, str) and gpu.lower().endswith(_SUFFIXES)):
        return read(gpu)
    if not isinstance(gpu, str):
        raise InputError(f"gpu={gpu!r}; give a name such as 'a100-80gb', a YAML file or a Gpu")
    return load(gpu)


def unmeasured(name: str, generation: str) -> tuple[Chip, tuple[Chip, ...]]:
    """A chip of which nothing is known but its name, and those that stand in: of its generation, if any."""
    chips = catalogue().chips
    near = next((chip for chip in chips.values() if chip.generation == generation), chips[DEFAULT_CHIP])
    chip = Chip(
        name=name,
        vendor="",
        generation=generation,
        fallback=(near.name,),
        overlap=near.overlap,
        libraries=near.libraries,
    )
    return chip, lenders(chip, chips)


def by_pci_device(device: str) -> Gpu | None:
    """The GPU with that PCI device id (``"0x20b5"``), or None."""
    wanted = device.lower().removeprefix("0x")
    boards = (board.name for board in catalogue().boards() if wanted and wanted in board.pci_devices)
    name = next(boards, None)
    return catalogue().gpus[name] if name is not None else None


def by_arch(arch: str) -> Gpu | None:
    """The GPU meant by AMD's architecture name (``"gfx942"``, ``"942"``), where one stands for it."""
    wanted = arch.lower().removeprefix("gfx")
    name = next((board.name for board in catalogue().boards() if wanted and wanted in board.archs), None)
    return catalogue().gpus[name] if name is not None else None
