"""The session: one observable that holds the strategy, its result and the selection.

It imports no widget.  Views observe it and send requests back; a request that
cannot be carried out leaves everything as it was and sets `error`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import traitlets as t

import proteus as pt
from proteus import hardware
from proteus.cluster import Cluster
from proteus.errors import InputError, ProteusError, Stopped, StrategyError
from proteus.model.graph import Model
from proteus.progress import Progress
from proteus.strategy import StrategyTree, TreeRow
from proteus.strategy.plan import DecidedPlan, Plan
from proteus_widgets import saved
from proteus_widgets.changes import changed, check_fits, edited, moved
from proteus_widgets.fields import BY_NAME
from proteus_widgets.moment import Moment, Outcome
from proteus_widgets.options import Option, possible
from proteus_widgets.reading import first_link, prepare
from proteus_widgets.selection import NOTHING, Lit, Selection, light
from proteus_widgets.suggest import Suggestion, suggest

if TYPE_CHECKING:
    from proteus.result.band import Band
    from proteus.result.levers import Lever
    from proteus.result.result import Result

#: steps that undo goes back
HISTORY = 200
#: what takes several simulations waits until nothing was changed for so long [s]
CALM_S = 0.3
#: how often a simulation that runs is looked at [s]
TICK_S = 0.1


@dataclass(slots=True)
class _History:
    past: list[Moment] = field(default_factory=list)
    future: list[Moment] = field(default_factory=list)

    def record(self, moment: Moment) -> None:
        self.past = [*self.past[1 - HISTORY :], _slim(moment)]
        self.future = []


class Session(t.HasTraits):
    """A strategy that is being worked on.

    Parameters
    ----------
    tree
        The strategy to begin with.
    cluster
        Where it runs.
    simulate
        ``(tree, cluster, progress=...) -> Result``; :func:`proteus.simulate` by default.

    Examples
    --------
    ::

        session = Session(tree, cluster)
        session.change(tp=4)          # tp and nothing else; dp follows where it is "fill"
        session.result.step_time_s
        session.undo()
    """

    outcome = t.Instance(Outcome, allow_none=True)
    pinned = t.Instance(Outcome, allow_none=True)
    before = t.Any(help="the result before the last change, or None")
    levers = t.Tuple(help="gains of better machines; found with the suggestions")
    suggestions = t.Tuple(help="faster neighbours of the strategy; see request_suggestions")
    band = t.Any(help="the band of the step time with undecided switches; None until request_band() has found it")
    selection = t.Instance(Selection, allow_none=True)
    lit = t.Instance(Lit)
    error = t.Unicode("")
    busy = t.Bool(False)
    progress = t.Float(0.0, help="share of the tasks that the running simulation has finished")

    def __init__(
        self,
        tree: StrategyTree,
        cluster: Cluster,
        *,
        simulate: Callable[..., Result] | None = None,
    ) -> None:
        for argument, value, kind in (("tree", tree, StrategyTree), ("cluster", cluster, Cluster)):
            if not isinstance(value, kind):
                raise InputError(f"{argument}={value!r}; a session takes a {kind.__name__}")
        super().__init__(lit=NOTHING)
        self._simulate = simulate or pt.simulate
        self._history = _History()
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._running: list[Progress] = []
        self._generation = 0
        self._wanted = _moment(tree, cluster)
        self._accept(self._run(self._wanted))

    # -- what it holds

    @property
    def moment(self) -> Moment:
        return self._last.moment

    @property
    def _last(self) -> Outcome:
        assert self.outcome is not None
        return self.outcome

    @property
    def model(self) -> Model:
        return self.moment.model

    @property
    def cluster(self) -> Cluster:
        return self.moment.cluster

    @property
    def tree(self) -> StrategyTree:
        """The strategy as it was asked for; ``result.tree`` is the one that was simulated."""
        return self.moment.tree

    @property
    def plan(self) -> Plan | None:
        """What was said of the strategy; None for a tree that was built by hand."""
        return self.tree.plan

    @property
    def decided(self) -> DecidedPlan:
        """Every field of the plan with its value and who set it."""
        return self.tree.decided

    @property
    def result(self) -> Result:
        return self._last.result

    @property
    def rows(self) -> tuple[TreeRow, ...]:
        return self._last.rows

    def possible(self, name: str) -> tuple[Option, ...]:
        """Values of a field of the plan, each with the reason when it is impossible."""
        return possible(name, self.moment)

    # -- changes

    def change(self, **changes: Any) -> bool:
        """Change fields of the plan (or ``model=``, ``cluster=``) now; whether it could be done.

        Nothing else changes; None takes a word back.  Degrees that another
        model or cluster cannot carry give way, and ``outcome.notes`` tells which.
        """
        return self._now(lambda moment: self._changed(moment, changes))

    def edit(self, path: str | Sequence[str], name: str, value: Any) -> bool:
        """Change one field of one tree node (or of several, as one step) now; see :mod:`proteus_widgets.editors`."""
        return self._now(lambda moment: self._edited(moment, path, name, value))

    def request(self, **changes: Any) -> None:
        """As :meth:`change`, without waiting: a newer request makes this one stale."""
        self._soon(lambda moment: self._changed(moment, changes))

    def request_text(self, name: str, text: str) -> None:
        """As :meth:`request` for a field and the text of its value, as a flag of the command line would have it."""
        self._soon(lambda moment: self._changed(moment, {name: _read(name, text)}))

    def request_load(self, *, model: str | None = None, cluster: str | None = None, nodes: int = 1) -> None:
        """As :meth:`request` for a built-in model or cluster by name; degrees that no longer fit give way."""

        def change(moment: Moment) -> Moment:
            named: dict[str, Any] = {}
            if model is not None:
                named["model"] = pt.models.load(model)
            if cluster is not None:
                named["cluster"] = pt.clusters.load(cluster, nodes=nodes)
            return self._changed(moment, named)

        self._soon(change)

    def request_gpu(self, name: str) -> None:
        """As :meth:`request` for another GPU of the catalogue in the same hosts; the one that is there stays."""

        def change(moment: Moment) -> Moment:
            if moment.cluster.gpu().name == name:
                return moment
            return self._changed(moment, {"cluster": moment.cluster.with_gpu(hardware.load(name))})

        self._soon(change)

    def request_edit(self, path: str | Sequence[str], name: str, value: Any) -> None:
        """As :meth:`edit`, without waiting."""
        self._soon(lambda moment: self._edited(moment, path, name, value))

    def undo(self) -> bool:
        """Go back to before the last change; False when there is none."""
        return self._travel(self._history.past, self._history.future)

    def redo(self) -> bool:
        """Take the last undo back."""
        return self._travel(self._history.future, self._history.past)

    @property
    def can_undo(self) -> bool:
        return bool(self._history.past)

    @property
    def can_redo(self) -> bool:
        return bool(self._history.future)

    def stop(self) -> None:
        """End the runs that have not ended; what is shown stays."""
        self._overtake()
        self._wanted = self.moment
        self.busy = False

    def pin(self) -> None:
        """Keep the result of now, to compare later ones with it."""
        self.pinned = self.outcome

    def unpin(self) -> None:
        self.pinned = None

    def _changed(self, moment: Moment, changes: Mapping[str, Any]) -> Moment:
        fields = {name: value for name, value in changes.items() if name not in ("model", "cluster")}
        model, cluster = changes.get("model"), changes.get("cluster", moment.cluster)
        if model is not None and not isinstance(model, Model):
            raise InputError(f"model={model!r}; it must be a Model, as pt.models.load() gives it")
        if not isinstance(cluster, Cluster):
            raise InputError(f"cluster={cluster!r}; it must be a Cluster, as pt.clusters.load() gives it")
        if model is None and cluster is moment.cluster:
            return _moment(changed(moment.tree, fields), cluster)
        tree, notes = moved(moment.tree, fields, model, cluster)
        return _moment(tree, cluster, notes)

    def _edited(self, moment: Moment, path: str | Sequence[str], name: str, value: Any) -> Moment:
        tree = moment.tree
        for one in [path] if isinstance(path, str) else path:
            tree = edited(tree, one, name, value)
        return _moment(tree, moment.cluster)

    # -- running

    def _overtake(self) -> Progress:
        """End what runs, suggestions too; the progress of what comes instead."""
        self._generation += 1
        for progress in self._running:
            progress.stop()
        self._running = [Progress()]
        return self._running[0]

    def _submit(self, pool: str, work: Callable[[], None]) -> None:
        """Run changes in one thread and suggestions in another."""
        if pool not in self._pools:
            self._pools[pool] = ThreadPoolExecutor(1, thread_name_prefix=f"proteus-{pool}")
        self._pools[pool].submit(work)

    def _run(self, moment: Moment, progress: Progress | None = None) -> Outcome:
        check_fits(moment.tree, moment.cluster)
        result = self._simulate(moment.tree, moment.cluster, progress=progress)
        return Outcome(moment=moment, result=result, rows=tuple(result.tree.rows()))

    def _now(self, change: Callable[[Moment], Moment]) -> bool:
        self._overtake()
        try:
            outcome = self._run(change(self.moment))
        except ProteusError as error:
            self._fail(error)
            return False
        self._history.record(self.moment)
        self._accept(outcome)
        return True

    def _soon(self, change: Callable[[Moment], Moment]) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._now(change)
            return
        try:
            wanted = change(self._wanted)
        except ProteusError as error:
            self._fail(error)
            return
        self._wanted = wanted
        progress, generation = self._overtake(), self._generation
        self.busy, self.progress = True, 0.0
        self._submit("change", lambda: self._work(loop, generation, wanted, progress))
        loop.call_later(TICK_S, self._tick, loop, progress)

    def _tick(self, loop: asyncio.AbstractEventLoop, progress: Progress) -> None:
        """Look how far the run is, again and again until another one has taken its place."""
        if self.busy and progress in self._running:
            self.progress = progress.fraction
            loop.call_later(TICK_S, self._tick, loop, progress)

    def _work(self, loop: asyncio.AbstractEventLoop, generation: int, moment: Moment, progress: Progress) -> None:
        if generation != self._generation:
            return  # a newer request waits behind this one
        outcome: Outcome | BaseException
        try:
            outcome = self._run(moment, progress)
            prepare(outcome.result)
        except Exception as error:
            outcome = error
        loop.call_soon_threadsafe(self._deliver, generation, outcome)

    def _deliver(self, generation: int, outcome: Outcome | BaseException) -> None:
        if generation != self._generation:
            return
        self.busy = False
        if isinstance(outcome, ProteusError):
            self._fail(outcome)
        elif isinstance(outcome, Outcome):
            self._history.record(self.moment)
            self._accept(outcome)
        else:
            self._wanted = self.moment
            raise outcome

    def _travel(self, source: list[Moment], target: list[Moment]) -> bool:
        if not source:
            return False
        self._overtake()
        try:
            outcome = self._run(source[-1])
        except ProteusError as error:
            self._fail(error)
            return False
        target.append(_slim(self.moment))
        source.pop()
        self._accept(outcome)
        return True

    def _fail(self, error: ProteusError) -> None:
        with self.hold_trait_notifications():
            self.busy = False
            self.error = str(error)
        self._wanted = self._last.moment

    def _accept(self, outcome: Outcome) -> None:
        self._wanted = outcome.moment
        with self.hold_trait_notifications():
            self.error = ""
            self.busy = False
            self.selection = None
            self.lit = NOTHING
            self.before = self.outcome.result if self.outcome else None
            self.suggestions = self.levers = ()
            self.band = None
            self.outcome = outcome

    # -- how sure it is

    def request_band(self) -> None:
        """Simulate undecided switches both ways, in the background after a short pause without changes.

        It takes several simulations; the picture of a change does not wait for them.
        """
        outcome = self._last
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.band = outcome.result.step_time_band
            return

        def work() -> None:
            if outcome is self.outcome:
                loop.call_soon_threadsafe(deliver, outcome.result.step_time_band)

        def deliver(band: Band) -> None:
            if outcome is self.outcome:
                self.band = band

        loop.call_later(CALM_S, self._submit, "band", work)

    # -- advice

    def suggest(self) -> tuple[Suggestion, ...]:
        """Try neighbouring strategies now; the three that gain most."""
        self.levers = self.result.explain(sensitivities=True).levers
        self.suggestions = suggest(self._last, self._run)
        return self.suggestions

    def request_suggestions(self) -> None:
        """As :meth:`suggest`, in the background; a change of the strategy ends it, and none begins beside one."""
        if self.busy:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.suggest()
            return
        outcome, generation, progress = self._last, self._generation, Progress()
        self._running.append(progress)

        def work() -> None:
            try:
                levers = outcome.result.explain(sensitivities=True, progress=progress).levers
                suggestions = suggest(outcome, lambda moment: self._run(moment, progress))
            except Stopped:
                return
            loop.call_soon_threadsafe(deliver, levers, suggestions)

        def deliver(levers: tuple[Lever, ...], suggestions: tuple[Suggestion, ...]) -> None:
            if generation == self._generation:
                with self.hold_trait_notifications():
                    self.levers, self.suggestions = levers, suggestions

        self._submit("advice", work)

    # -- selection

    def select(self, what: str, at: int, others: Sequence[int] = ()) -> None:
        """Select a span, link or node by id (and `others` with it); a negative id selects nothing."""
        selection = Selection(what, at, tuple(others)) if at >= 0 else None  # type: ignore[arg-type]
        lit = light(selection, self.result.spans, [row.parent for row in self.rows], first_link(self.result))
        with self.hold_trait_notifications():
            self.selection = selection if lit is not NOTHING else None
            self.lit = lit

    # -- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write model, cluster, plan and edits as YAML."""
        saved.write(path, self.moment)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        model: Model | None = None,
        cluster: Cluster | None = None,
    ) -> Session:
        """A session as :meth:`save` wrote it.

        Parameters
        ----------
        model, cluster
            Needed where the file names a model or cluster that is not built in.
        """
        moment = saved.read(path, model=model, cluster=cluster)
        return cls(moment.tree, moment.cluster)


def _moment(tree: StrategyTree, cluster: Cluster, notes: tuple[str, ...] = ()) -> Moment:
    return _slim(Moment(tree=tree.on_devices(cluster.num_devices), cluster=cluster, notes=notes))


def _slim(moment: Moment) -> Moment:
    """The moment without what its tree remembers: the trees before it are moments of their own."""
    return replace(moment, tree=moment.tree.without_history())


def _read(name: str, text: str) -> Any:
    field = BY_NAME[name]
    try:
        return field.parse(text)
    except ValueError as error:
        rule = str(error)
        raise StrategyError(f"{name}: {rule if rule.startswith('unknown ') else f'{text!r} is not {rule}'}") from None
