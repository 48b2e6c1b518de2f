"""Marks for Feedline: where the steps of a training loop begin, and what its time goes to.

    import feedline

    for batch in loader:
        feedline.step()
        with feedline.region("augment"):
            batch = augment(batch)
        ...

While nobody listens a mark costs well under a microsecond. Once `feedline attach` or `feedline
record` watches the process, or `feedline run` started it, each region's exact time is counted,
what lies in a nested region not included. Marks never raise and never print.

Regions belong to a thread; one that is held open over an `await` also counts what other tasks do
meanwhile, so put them around plain code.
"""

import functools
from types import TracebackType
from typing import Any, Callable, Dict, Optional, Type, TypeVar

from . import _channel

__all__ = ["Region", "listening", "region", "step"]
__version__ = "0.1.0"

_Function = TypeVar("_Function", bound=Callable[..., Any])


_LISTEN, _USED = _channel._LISTEN, _channel._USED


class Region:
    """A named part of the program: a context manager, and a decorator of plain functions."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> "Region":
        # A word that is 0 until somebody first listens; the clock is asked only after that.
        if _channel.words[_LISTEN] and _channel.listening():
            try:
                _channel.begin(self._name, _channel.local.stack)
            except Exception:
                _channel.failed()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]] = None,
        error: Optional[BaseException] = None,
        trace: Optional[TracebackType] = None,
    ) -> None:
        if _channel.words[_USED]:
            try:
                local = _channel.local
                _channel.end(local.slots.get(self._name, -1), local.stack)
            except Exception:
                _channel.failed()

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


_known: Dict[str, Region] = {}


def region(name: str) -> Region:
    """The part of the program with a name: `with region("augment"):`, or `@region("augment")`.

    Names are cut to 88 bytes; at most 256 pairs of thread and name are kept per process, and what
    does not fit is counted as lost.
    """
    found = _known.get(name)
    if found is None:
        found = Region(name)
        if len(_known) < 1024:
            _known[name] = found
    return found


class _Step:
    """What `step()` gives, for those who hold a step in a `with`."""

    __slots__ = ()

    def __enter__(self) -> "_Step":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]] = None,
        error: Optional[BaseException] = None,
        trace: Optional[TracebackType] = None,
    ) -> None:
        if _channel.words[_USED]:
            try:
                _channel.end_step()
            except Exception:
                _channel.failed()


_STEP = _Step()


def step() -> _Step:
    """Marks the boundary between two steps of this thread.

    Called alone, a step lasts until the next call; in a `with` it lasts until the block ends, and
    what lies between two blocks belongs to no step.
    """
    if _channel.words[_LISTEN] and _channel.listening():
        try:
            _channel.local.stepping = True
            _channel.step()
        except Exception:
            _channel.failed()
    return _STEP


def listening() -> bool:
    """Whether anybody counts at the moment."""
    return _channel.listening()
