"""The search itself: shapes in order of a guess, cut off by bounds, simulated, ranked."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from proteus.arguments import A, Choice, Either, Maybe, Names, Text, Whole, takes
from proteus.cluster import Cluster
from proteus.costs import precision as precisions
from proteus.errors import InputError, ProteusError, StrategyError
from proteus.frameworks import Framework
from proteus.model.graph import Model
from proteus.search.bounds import guessed_time, least_memory, least_time
from proteus.search.found import Found, Search
from proteus.search.space import Shape, savings, shapes
from proteus.strategy.plan import Plan
from proteus.strategy.recipe import framework_of
from proteus.strategy.schedule import SCHEDULES
from proteus.strategy.tree import StrategyTree
from proteus.units import format_bytes

if TYPE_CHECKING:
    from concurrent.futures import Future  # slow to import, and only a search needs it

#: a framework as a plan names it
Named = str | Framework | None
#: schedules looked at unless others are named: the usual ones
DEFAULT_SCHEDULES = ("1f1b", "interleaved")
#: simulations of a search by default
DEFAULT_BUDGET = 256
#: shapes that a worker is sent at once: they share compiled blocks
_BATCH = 4


class Pool(Protocol):
    """What runs batches of shapes: a process pool, a Dask client, or this process."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Any: ...


@takes(
    InputError,
    model=A(Model),
    cluster=A(Cluster),
    global_batch=Whole(minimum=1),
    top=Whole(minimum=1),
    schedules=Names(lambda: SCHEDULES, "schedule"),
    precision=Choice(lambda: precisions.names(), "precision"),
    framework=Maybe(Either(A(Framework), Text("the name of a framework"))),
    budget=Whole(minimum=1),
    workers=Whole(minimum=1),
    dask=Maybe(Text("the address of a scheduler")),
)
def search(
    model: Model,
    cluster: Cluster,
    *,
    global_batch: int,
    top: int = 10,
    schedules: Sequence[str] = DEFAULT_SCHEDULES,
    precision: str = "bf16",
    framework: str | Framework | None = None,
    budget: int = DEFAULT_BUDGET,
    workers: int = 1,
    dask: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Search:
    """The fastest strategies that fit.

    Parameters
    ----------
    global_batch
        Samples of one step.
    top
        How many to keep.
    schedules
        Pipeline schedules to try.
    precision, framework
        As in ``parallelize``.  Gradients are reduced beside the backward pass
        (``overlap_gradients``) whatever the framework does unless told.
    budget
        Most shapes to simulate, the most promising first.
    workers
        Processes; 1 searches in this one.  More need the usual
        ``if __name__ == "__main__"`` in a script.
    dask
        Address of a Dask scheduler to use instead (needs the extra ``dask``).
    progress
        Called with (shapes done, shapes to do).

    Raises
    ------
    StrategyError
        No strategy spreads the batch over the devices, or none fits; the
        message says the rule or the bytes.

    Examples
    --------
    >>> import proteus as pt
    >>> found = pt.search(pt.models.load("gpt2"), pt.clusters.load("dgx-a100"), global_batch=64, top=3, budget=8)
    >>> len(found.found), found.best.num_devices
    (3, 8)
    """
    begin = time.perf_counter()
    framework_of(Plan(framework=framework))  # an unknown name is an error here, not a strategy that does not fit
    every = shapes(model, cluster, global_batch, tuple(schedules))
    every.sort(key=lambda s: guessed_time(model, cluster, s, precision))
    state = _State(model, cluster, precision, framework, top)
    with _pool(workers, dask) as (pool, width):
        _run(state, every[:budget], pool, width, progress)
    if not state.best:
        raise StrategyError(
            f"none of {state.num_done} strategies for {model.name} fits {cluster!r}; the smallest needs at least "
            f"{format_bytes(state.least_bytes)} per device; use more devices or a smaller micro-batch"
        )
    candidates = sorted((f for _, _, f in state.best), key=lambda f: (f.step_time_s, str(f.settings)))
    return Search(
        model=model,
        found=tuple(candidates),
        num_shapes=len(every),
        num_pruned=state.num_pruned,
        num_simulated=state.num_simulated,
        num_left=max(len(every) - budget, 0),
        seconds=time.perf_counter() - begin,
    )


class _State:
    """The best so far, as a heap whose first is the slowest kept."""

    def __init__(
        self, model: Model, cluster: Cluster, precision: str, framework: str | Framework | None, top: int
    ) -> None:
        self.model, self.cluster, self.precision, self.framework, self.top = model, cluster, precision, framework, top
        self.best: list[tuple[float, int, Found]] = []
        self.num_done = self.num_pruned = self.num_simulated = 0
        self.least_bytes = float("inf")

    @property
    def limit_s(self) -> float:
        return -self.best[0][0] if len(self.best) == self.top else float("inf")

    def take(self, answer: Answer) -> None:
        self.num_done += 1
        self.num_simulated += answer.num_simulated
        self.num_pruned += answer.num_simulated == 0
        self.least_bytes = min(self.least_bytes, answer.least_bytes)
        if answer.found is not None:
            item = (-answer.found.step_time_s, -self.num_done, answer.found)
            if len(self.best) < self.top:
                heapq.heappush(self.best, item)
            elif item > self.best[0]:
                heapq.heapreplace(self.best, item)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one shape."""

    found: Found | None
    num_simulated: int
    least_bytes: float


def _run(
    state: _State, todo: Sequence[Shape], pool: Pool, width: int, progress: Callable[[int, int], None] | None
) -> None:
    from concurrent.futures import FIRST_COMPLETED, wait

    batches = iter([todo[i : i + _BATCH] for i in range(0, len(todo), _BATCH)])
    running: set[Future[list[Answer]]] = set()
    while True:
        for batch in batches:
            useful = [s for s in batch if least_time(state.model, state.cluster, s, state.precision) < state.limit_s]
            for _ in range(len(batch) - len(useful)):
                state.take(Answer(found=None, num_simulated=0, least_bytes=float("inf")))
            if useful:
                running.add(
                    pool.submit(
                        try_shapes, state.model, state.cluster, useful, state.precision, state.framework, state.limit_s
                    )
                )
            if len(running) >= width:
                break
        if not running:
            return
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            for answer in future.result():
                state.take(answer)
        if progress:
            progress(state.num_done, len(todo))


def try_shapes(
    model: Model,
    cluster: Cluster,
    batch: Iterable[Shape],
    precision: str,
    framework: str | Framework | None,
    limit_s: float,
) -> list[Answer]:
    """Simulate shapes, each with the first way to save memory that fits."""
    return [_try(model, cluster, shape, precision, framework, limit_s) for shape in batch]


def _try(model: Model, cluster: Cluster, shape: Shape, precision: str, framework: Named, limit_s: float) -> Answer:
    from proteus.simulate import simulate

    capacity = min(cluster.gpu(d).memory_bytes for d in (0, cluster.num_devices - 1))
    least, simulated = float("inf"), 0
    for saving in savings(shape):
        settings = {**shape.settings(), **saving, "precision": precision, "overlap_gradients": True}
        if framework is not None:
            settings["framework"] = framework if isinstance(framework, str) else framework.text
        try:
            tree = StrategyTree(model).parallelize(**settings)
            needed = least_memory(tree, cluster)
            least = min(least, needed)
            if needed > capacity:
                continue
            result = simulate(tree, cluster)
        except ProteusError:
            break  # the model cannot be cut so
        simulated += 1
        if result.fits:
            candidate = Found(
                settings=settings,
                step_time_s=result.step_time_s,
                samples_per_s=result.samples_per_s,
                tokens_per_s=result.tokens_per_s,
                mfu=result.mfu,
                peak_memory_bytes=result.peak_memory_bytes,
                bubble_fraction=result.bubble_fraction,
                exposed_comm_s=sum(result.exposed_comm_s.values()),
            )
            return Answer(found=candidate, num_simulated=simulated, least_bytes=least)
        if result.step_time_s > limit_s:
            break  # saving more memory only takes longer
    return Answer(found=None, num_simulated=simulated, least_bytes=least)


class _Here:
    """A pool that runs at once, in this process."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        from concurrent.futures import Future

        future: Future[Any] = Future()
        future.set_result(function(*args))
        return future


@contextmanager
def _pool(workers: int, dask: str | None) -> Iterator[tuple[Pool, int]]:
    """A pool and how many batches to keep running on it."""
    if dask is not None:
        try:
            from distributed import Client
        except ImportError as error:
            raise InputError("a search on Dask needs the extra: pip install 'proteus-sim[dask]'") from error
        try:
            client = Client(dask, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(f"--dask {dask}: no scheduler answers at this address: {error}") from error
        with client:
            executor = client.get_executor(pure=False)
            yield executor, max(sum(client.ncores().values()), 1) * 2
    elif workers > 1:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("spawn")  # numba and threads of a notebook do not survive a fork
        with ProcessPoolExecutor(max_workers=min(workers, os.cpu_count() or 1), mp_context=context) as pool:
            yield pool, workers + 1
    else:
        yield _Here(), 1
