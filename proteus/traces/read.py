"""``pt.read_trace``: files of any format and any number of ranks to one :class:`Measured`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from proteus.arguments import Each, Either, FilePath, Switch, takes
from proteus.errors import InputError, context
from proteus.traces.align import clock_shift_s, ends_of
from proteus.traces.chakra import is_chakra, read_chakra_events
from proteus.traces.events import FileEvents
from proteus.traces.kinds import KernelKind, kind_of_collective, kind_of_copy, kind_of_kernel
from proteus.traces.kineto import read_kineto
from proteus.traces.linking import link
from proteus.traces.measured import Measured, MeasuredRank
from proteus.traces.nsys import is_sqlite, read_nsys
from proteus.traces.steps import find_steps

#: what a trace's file may be called, in a folder of them
_SUFFIXES = (".json", ".json.gz", ".sqlite", ".et")
#: microseconds; an event so far from the others has a broken time
_FAR_US = 86_400e6
#: host annotations of collectives begin so; PyTorch csrc/distributed/c10d
_COMM_ANNOTATIONS = ("nccl:", "c10d::", "gloo:", "rccl:")
#: names of ranks in a message
_MOST_NAMED = 8


@dataclass(slots=True, kw_only=True)
class _Device:
    """The events of one device of one file, in seconds since the file's origin."""

    file: FileEvents
    device: int
    rank: int | None
    columns: dict[str, np.ndarray]
    names: tuple[str, ...]
    steps: dict[int, tuple[float, float]]
    peak_memory_bytes: float | None
    shift_s: float = 0.0
    is_aligned: bool = False


@takes(InputError, paths=Either(FilePath(), Each(FilePath(), minimum=1)), align=Switch())
def read_trace(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, align: bool = True) -> Measured:
    """Read what a profiler measured.

    Parameters
    ----------
    paths
        A file, several (one per rank), or a folder of them: traces of the
        PyTorch profiler (``.json``, ``.json.gz``), exports of Nsight Systems
        (``.sqlite``), or Chakra execution traces with times (``.et``).
    align
        Shift the clocks of ranks so that collectives end together.

    Returns
    -------
    Measured
        Its ``warnings`` say what was repaired, left out or guessed.

    Raises
    ------
    InputError
        A file cannot be read, holds no events of a GPU, or two files hold the
        same rank.

    Examples
    --------
    >>> import json, tempfile
    >>> kernel = {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x64_nn", "pid": 0, "tid": 7, "ts": 10, "dur": 5}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rank0.json")
    ...     size = path.write_text(json.dumps({"traceEvents": [kernel]}))
    ...     measured = read_trace(path)
    >>> measured, round(measured.times[0].compute_s * 1e6)
    (Measured(1 ranks, 0 steps, 1 events), 5)
    """
    files = list(_files([paths] if isinstance(paths, str | os.PathLike) else paths))
    warnings: list[str] = []
    devices: list[_Device] = []
    without: list[str] = []
    for path in files:
        with context(str(path)):
            file = _read(path)
            parts = _devices(file)
        if not parts:
            host = f"{len(file.ops['ts'])} operators on the host"
            backend = f", backend {file.backend}" if file.backend else ""
            without.append(f"{path}: holds no events of a GPU ({file.num_events} events, {host}{backend})")
        devices += parts
        warnings += [f"{path.name}: {text}" for text in file.warnings]
    if not devices:
        raise InputError(
            "; ".join(without[:_MOST_NAMED])
            + "; profile with torch.profiler.ProfilerActivity.CUDA on a run that uses GPUs"
        )
    warnings += without
    world_size = max((d.file.world_size for d in devices if d.file.world_size), default=None)
    _number(devices, warnings)
    devices.sort(key=lambda d: d.rank or 0)
    _common_clock(devices)
    if align and len(devices) > 1:
        _align(devices, warnings)
    steps_from = _fill_steps(devices, warnings)
    present = {d.rank for d in devices}
    if world_size is not None and len(present) < world_size:
        warnings.append(
            f"{world_size - len(present)} of {world_size} ranks are missing: "
            "stragglers and waiting are those of the ranks that are here"
        )
    measured = _joined(devices, world_size, steps_from, warnings)
    if measured.unknown_fraction > 0.0:
        unknown = ", ".join(f"{name[:60]} ({share:.2%})" for name, share in measured.unknown_kernels()[:3])
        warnings.append(f"{measured.unknown_fraction:.2%} of the kernels' time is of unknown kind: {unknown}")
    zero = int((measured.end_s == measured.start_s).sum())
    if zero:
        warnings.append(f"{zero} events last shorter than the profiler's clock tells: their time counts as 0")
    return replace(measured, warnings=tuple(warnings))


def _read(path: Path) -> FileEvents:
    """One file, by what it is."""
    if is_chakra(path):
        return read_chakra_events(path)
    return read_nsys(path) if is_sqlite(path) else read_kineto(path)


def _files(paths: Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    """The files that are named, and those in folders that are."""
    seen: set[Path] = set()
    for name in paths:
        path = Path(name)
        inside = [path]
        if path.is_dir():
            inside = sorted(child for child in path.iterdir() if child.name.lower().endswith(_SUFFIXES))
            if not inside:
                raise InputError(f"{path}: holds no trace ({', '.join(_SUFFIXES)})")
        for child in inside:
            if child.resolve() in seen:
                raise InputError(f"{child} is given twice; name each file once")
            seen.add(child.resolve())
            yield child


# -- one file ----------------------------------------------------------------------------


def _devices(file: FileEvents) -> list[_Device]:
    """The devices of a file that ran kernels."""
    kernels = _clean(file)
    file.kernels = kernels
    links = link(file)
    op_names = file.ops["name"]
    kind = _kinds(file, links.op, links.parent)
    operator = np.where(links.op >= 0, op_names[links.op] if len(op_names) else -1, -1)
    has_metadata = kernels["collective"] >= 0
    size = kernels["bytes"].copy()
    group = np.full(len(kind), "", object)
    if file.collectives:
        rows = kernels["collective"][has_metadata]
        size[has_metadata] = np.array([c.size_bytes for c in file.collectives])[rows]
        group[has_metadata] = np.array([c.group for c in file.collectives], object)[rows]
    shift_us = links.host_shift_us
    steps = {step: ((a + shift_us) / 1e6, (b + shift_us) / 1e6) for step, (a, b) in file.steps.items()}
    step = _step_of(steps, np.where(np.isnan(links.launch_us), kernels["ts"], links.launch_us) / 1e6)
    all_columns = {
        "stream": kernels["stream"],
        "kind": kind,
        "name_id": kernels["name"],
        "operator_id": operator.astype(np.int32),
        "start_s": kernels["ts"] / 1e6,
        "end_s": (kernels["ts"] + kernels["dur"]) / 1e6,
        "launch_s": links.launch_us / 1e6,
        "bytes": size,
        "group": group,
        "step": step,
        "correlation": kernels["correlation"],
    }
    numbers, counts = np.unique(kernels["device"], return_counts=True)
    is_one = len(numbers) == 1
    found = []
    for device in numbers[np.argsort(-counts, kind="stable")].tolist():
        mine = kernels["device"] == device
        on_device = file.memory["bytes"][file.memory["device"] == device]
        found.append(
            _Device(
                file=file,
                device=device,
                rank=file.rank if is_one else None,
                columns={name: column[mine] for name, column in all_columns.items()},
                names=file.names,
                steps=steps,
                peak_memory_bytes=float(on_device.max()) if len(on_device) else None,
            )
        )
    return found


def _clean(file: FileEvents) -> dict[str, np.ndarray]:
    """The kernels without doubles and without those whose time is broken; warnings say how many went."""
    kernels = file.kernels
    ts = kernels["ts"]
    if not len(ts):
        return kernels
    far = np.abs(ts - np.median(ts)) > _FAR_US
    far |= kernels["dur"] > _FAR_US
    if far.any():
        file.warnings.append(f"{far.sum()} kernels lie, or last, more than a day from the others and were skipped")
        kernels = {name: column[~far] for name, column in kernels.items()}
    order = np.lexsort([kernels[name] for name in ("name", "dur", "correlation", "stream", "device", "ts")])
    same = np.ones(len(order), bool)
    same[:1] = False
    for name in ("name", "dur", "correlation", "stream", "device", "ts"):
        column = kernels[name][order]
        same[1:] &= column[1:] == column[:-1]
    same &= kernels["dur"][order] > 0.0  # without length, equal rows may be two kernels
    if same.any():
        file.warnings.append(f"{same.sum()} kernels stand there twice and count once")
    keep = np.sort(order[~same])
    return {name: column[keep] for name, column in kernels.items()}


def _kinds(file: FileEvents, op: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """uint8[kernels]: kinds, by metadata, by the annotation around the launch, by name."""
    kernels, names = file.kernels, file.names
    is_copy = kernels["is_copy"].astype(bool)
    kind = np.empty(len(is_copy), np.uint8)
    for copies, tell in ((False, kind_of_kernel), (True, kind_of_copy)):
        rows = np.flatnonzero(is_copy == copies)
        kind[rows] = _by_name(kernels["name"][rows], names, tell)
    # a group of sends and receives may be one collective, and a generic kernel may be any; one that names its
    # collective is believed
    for row in np.flatnonzero(np.isin(kind, (KernelKind.SEND_RECV, KernelKind.UNKNOWN_COMM))).tolist():
        metadata = kernels["collective"][row]
        told = file.collectives[metadata].kind if metadata >= 0 else None
        at = int(op[row])
        while told is None and at >= 0:
            name = names[file.ops["name"][at]]
            told = kind_of_collective(name) if name.startswith(_COMM_ANNOTATIONS) else None
            at = int(parent[at])
        if told is not None:
            kind[row] = told
    return kind


def _by_name(ids: np.ndarray, names: tuple[str, ...], tell: Callable[[str], KernelKind]) -> np.ndarray:
    unique, which = np.unique(ids, return_inverse=True)
    kinds = np.array([tell(names[i]) for i in unique.tolist()], np.uint8)
    return kinds[which] if len(unique) else np.empty(0, np.uint8)


def _step_of(steps: dict[int, tuple[float, float]], at_s: np.ndarray) -> np.ndarray:
    """int32: the step in which each time lies; -1 outside of all."""
    if not steps:
        return np.full(len(at_s), -1, np.int32)
    numbers = np.array(sorted(steps, key=lambda step: steps[step]), np.int32)
    begin = np.array([steps[step][0] for step in numbers.tolist()])
    end = np.array([steps[step][1] for step in numbers.tolist()])
    row = np.searchsorted(begin, at_s, side="right") - 1
    inside = (row >= 0) & (at_s <= end[np.maximum(row, 0)])
    return np.where(inside, numbers[np.maximum(row, 0)], -1).astype(np.int32)


# -- several files -----------------------------------------------------------------------


def _number(devices: list[_Device], warnings: list[str]) -> None:
    """Give every device the rank that its file says, or a free one; two files of one rank are refused."""
    taken: dict[int, _Device] = {}
    for device in devices:
        if device.rank is None:
            continue
        other = taken.setdefault(device.rank, device)
        if other is not device:
            raise InputError(
                f"{device.file.source}: says that it is rank {device.rank}, as does {other.file.source}; "
                "give one file per rank"
            )
    guessed = []
    for device in devices:
        if device.rank is not None:
            continue
        rank = device.device if device.device >= 0 else 0
        while rank in taken:
            rank += 1
        device.rank = rank
        taken[rank] = device
        guessed.append(f"{rank} (device {device.device} of {Path(device.file.source).name})")
    if guessed and len(devices) > 1:
        more = f" and {len(guessed) - _MOST_NAMED} more" if len(guessed) > _MOST_NAMED else ""
        warnings.append(f"ranks numbered here, as no file says them: {', '.join(guessed[:_MOST_NAMED])}{more}")


def _common_clock(devices: list[_Device]) -> None:
    """Count the times of all devices from the first event of all."""
    origin_us = min(d.file.origin_us for d in devices)
    for device in devices:
        _shift(device, (device.file.origin_us - origin_us) / 1e6)
    first_s = min(float(d.columns["start_s"].min()) for d in devices)
    for device in devices:
        _shift(device, -first_s)


def _shift(device: _Device, by_s: float) -> None:
    for name in ("start_s", "end_s", "launch_s"):
        device.columns[name] = device.columns[name] + by_s
    device.steps = {step: (a + by_s, b + by_s) for step, (a, b) in device.steps.items()}


def _align(devices: list[_Device], warnings: list[str]) -> None:
    """Shift the clock of every rank to that of the first."""
    reference = ends_of(devices[0].columns)
    unsure = []
    devices[0].is_aligned = True
    for device in devices[1:]:
        shift_s = clock_shift_s(reference, ends_of(device.columns))
        if shift_s is None:
            unsure.append(str(device.rank))
            continue
        device.is_aligned = True
        if shift_s:
            _shift(device, shift_s)
            device.shift_s = shift_s
            warnings.append(
                f"rank {device.rank}: its clock differs from that of rank {devices[0].rank} by {-shift_s * 1e3:.3f} ms "
                "(collectives end together); its times were shifted"
            )
    if unsure:
        warnings.append(
            f"the clocks of ranks {', '.join(unsure[:_MOST_NAMED])}{', ...' if len(unsure) > _MOST_NAMED else ''} were "
            f"not aligned with rank {devices[0].rank}: their collectives do not match; "
            "do not compare times across these ranks"
        )
    first_s = min(float(d.columns["start_s"].min()) for d in devices)
    for device in devices:
        _shift(device, -first_s)


def _fill_steps(devices: list[_Device], warnings: list[str]) -> str:
    """Where the steps come from; those of traces without any are found by their period."""
    if any(device.steps for device in devices):
        missing = [str(device.rank) for device in devices if not device.steps]
        if missing:
            warnings.append(
                f"ranks {', '.join(missing[:_MOST_NAMED])} have no profiler steps: only their totals are given"
            )
        return "ProfilerStep"
    for device in devices:
        kind, start_s = device.columns["kind"], device.columns["start_s"]
        rows = np.flatnonzero(kind <= KernelKind.UNKNOWN)
        rows = rows[np.argsort(start_s[rows], kind="stable")]
        begins = find_steps(device.columns["name_id"][rows], kind[rows] == KernelKind.OPTIMIZER)
        if len(begins):
            edges_s = np.append(start_s[rows], device.columns["end_s"].max())[begins].tolist()
            device.steps = dict(enumerate(itertools.pairwise(edges_s)))
            device.columns["step"] = _step_of(device.steps, start_s)
    if any(device.steps for device in devices):
        warnings.append("no ProfilerStep in the trace: the steps are guessed from the period of the kernels")
        return "periodicity"
    warnings.append("no ProfilerStep in the trace, and the kernels show no period: only totals are given")
    return "none"


def _joined(devices: list[_Device], world_size: int | None, steps_from: str, warnings: list[str]) -> Measured:
    names: dict[str, int] = {}
    parts: list[dict[str, np.ndarray]] = []
    for device in devices:
        to = np.array([names.setdefault(name, len(names)) for name in device.names] or [0], np.int32)
        columns = dict(device.columns)
        columns["name_id"] = to[columns["name_id"]]
        columns["operator_id"] = np.where(columns["operator_id"] >= 0, to[columns["operator_id"]], -1).astype(np.int32)
        columns["rank"] = np.full(len(columns["kind"]), device.rank, np.int32)
        order = np.lexsort((columns["start_s"], columns["stream"]))
        parts.append({name: column[order] for name, column in columns.items()})
    return Measured(
        **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        names=tuple(names),
        ranks=tuple(
            MeasuredRank(
                rank=device.rank or 0,
                device=device.device,
                source=device.file.source,
                gpu=device.file.device_names.get(device.device),
                clock_shift_s=device.shift_s,
                is_aligned=device.is_aligned,
                steps=device.steps,
                peak_memory_bytes=device.peak_memory_bytes,
            )
            for device in devices
        ),
        world_size=world_size,
        steps_from=steps_from,
        warnings=tuple(warnings),
    )
