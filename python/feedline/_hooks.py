"""Hooks for `feedline run`: the exact times of loaders, checkpoints, collectives and the like,
without a change to the job's code.

Nothing is imported that the job does not import: a finder at the head of `sys.meta_path` patches a
module right after it was loaded. A hook calls what it replaces with the arguments it got, and gives
back what that gave; whatever goes wrong in the hook itself is counted and never seen by the job.
What is hooked stands in `_targets.py`.
"""

import functools
import gc
import sys
import threading
import weakref
from typing import Any, Callable, Optional

from . import _channel

Function = Callable[..., Any]
Wrap = Callable[[Function], Function]


def _never() -> bool:
    return False


# Whether torch.compile is tracing: then a hook is not there, so that no graph breaks on it.
_compiling: Callable[[], bool] = _never


def follow_compiler(module: Any) -> None:
    """From here on hooks step aside while `torch.compile` traces."""
    global _compiling
    _compiling = getattr(module, "is_compiling", _never)


def _enter(name: str) -> int:
    """Opens a region; what lies in the same region already is part of it."""
    try:
        if not _channel.listening():
            return -1
        stack = _channel.local.stack
        if stack and stack[-1] == _channel.local.slots.get(name):
            return -1
        return _channel.begin(name, stack)
    except Exception:
        _channel.failed()
        return -1


def _leave(opened: int, counts: int = 1) -> None:
    if opened >= 0:
        try:
            _channel.end(opened, _channel.local.stack, counts)
        except Exception:
            _channel.failed()


def timed(name: str) -> Wrap:
    """A function whose time is a region of its own."""

    def wrap(function: Function) -> Function:
        @functools.wraps(function)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            if _compiling():
                return function(*args, **kwargs)
            opened = _enter(name)
            try:
                return function(*args, **kwargs)
            finally:
                _leave(opened)

        hooked._feedline = True  # type: ignore[attr-defined]
        return hooked

    return wrap


def within(name: str) -> Wrap:
    """A function that is timed beside the region it lies in, and takes nothing from that."""

    def wrap(function: Function) -> Function:
        @functools.wraps(function)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            opened, done = -1, 0
            try:
                if _channel.listening():
                    opened = _channel.begin(name, _channel.local.within)
            except Exception:
                _channel.failed()
            try:
                result = function(*args, **kwargs)
                done = 1
                return result
            finally:
                if opened >= 0:
                    try:
                        _channel.end(opened, _channel.local.within, done)
                    except Exception:
                        _channel.failed()

        hooked._feedline = True  # type: ignore[attr-defined]
        return hooked

    return wrap


def batches(function: Function) -> Function:
    """The `__next__` of a loader: region `data`, counted by batches, and the steps between them."""

    @functools.wraps(function)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        opened, done = _enter("data"), 0
        try:
            batch = function(self, *args, **kwargs)
            done = 1
            return batch
        except StopIteration:
            if opened >= 0:
                _loop_over(self)
            raise
        finally:
            _leave(opened, done)
            if done and opened >= 0:
                _boundary(self)

    hooked._feedline = True  # type: ignore[attr-defined]
    return hooked


def _boundary(source: Any) -> None:
    """A batch is there: a step begins, unless the job marks its steps itself, or this loader runs
    inside the loop over another (a validation in the middle of an epoch)."""
    local = _channel.local
    try:
        if local.stepping:
            return
        held = local.source
        owner = held() if held is not None else None
        if owner is None:
            local.source = weakref.ref(source)
        elif owner is not source:
            return
        _channel.step()
    except Exception:
        _channel.failed()


def _loop_over(source: Any) -> None:
    local = _channel.local
    try:
        held = local.source
        if held is not None and held() is source:
            local.source = None
            _channel.end_step()
    except Exception:
        _channel.failed()


def after_init(act: Callable[[Any], None]) -> Wrap:
    """An `__init__` after which something is done to the new object."""

    def wrap(function: Function) -> Function:
        @functools.wraps(function)
        def hooked(self: Any, *args: Any, **kwargs: Any) -> None:
            function(self, *args, **kwargs)
            try:
                act(self)
            except Exception:
                _channel.failed()

        hooked._feedline = True  # type: ignore[attr-defined]
        return hooked

    return wrap


def hook_step(optimizer: Any) -> None:
    """Every optimizer class has a `step` of its own; it is hooked when the first is made."""
    cls = type(optimizer)
    if not getattr(cls.step, "_feedline", False):
        cls.step = timed("optimizer")(cls.step)


def hook_collate(fetcher: Any) -> None:
    """The collate function is an attribute of the fetcher, which lives in the worker."""
    fetcher.collate_fn = within("worker.collate")(fetcher.collate_fn)


def _collecting(phase: str, info: Any) -> None:
    """Python's garbage collector begins or ends a collection on this thread."""
    try:
        if phase == "start":
            if _channel.listening():
                _channel.begin("gc", _channel.local.stack)
        else:
            local = _channel.local
            _channel.end(local.slots.get("gc", -1), local.stack)
    except Exception:
        pass  # at the end of the interpreter nothing may be left to count with


def patch(module: Any, path: str, wrap: Wrap) -> None:
    """Replaces a function of a module, or a method as `Class.method`, if it is there."""
    owner: Any = module
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part, None)
    # A method is hooked where it is defined: an inherited one has its hook already.
    found = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
    if found is None or getattr(found, "_feedline", False):
        return
    if isinstance(found, (staticmethod, classmethod)):
        setattr(owner, name, type(found)(wrap(found.__func__)))
    else:
        setattr(owner, name, wrap(found))


def patch_module(module: Any) -> None:
    """Hooks what `_targets.py` lists for a module."""
    from ._targets import TARGETS

    name = getattr(module, "__name__", "")
    for path, wrap in TARGETS.get(name, ()):
        try:
            if path:
                patch(module, path, wrap)
            else:
                wrap(module)
        except Exception:
            _channel.failed()


class _Loader:
    """Loads a module as its own loader does, and hooks it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        try:
            module.__spec__.loader = module.__loader__ = self._loader
        except Exception:
            _channel.failed()
        self._loader.exec_module(module)
        # What a module put in its place in `sys.modules` is what others will see.
        patch_module(sys.modules.get(module.__name__, module))


class _Finder:
    """Finds the modules that are hooked, by asking the other finders."""

    def __init__(self) -> None:
        self._asking = threading.local()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[Any]:
        from ._targets import TARGETS

        if name not in TARGETS or getattr(self._asking, "name", None) == name:
            return None
        self._asking.name = name
        try:
            for finder in sys.meta_path:
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find is not None else None
                if spec is not None:
                    if hasattr(spec.loader, "exec_module") and hasattr(spec.loader, "create_module"):
                        spec.loader = _Loader(spec.loader)
                    return spec
            return None
        finally:
            self._asking.name = None


_finder = _Finder()


def install() -> None:
    """Puts the hooks in place, for this process and for those that it forks."""
    from ._targets import TARGETS

    if _finder in sys.meta_path:
        return
    for name in TARGETS:
        if name in sys.modules:
            patch_module(sys.modules[name])
    sys.meta_path.insert(0, _finder)
    gc.callbacks.append(_collecting)


def remove() -> None:
    """No module is hooked from here on; hooks in place fall silent when nobody listens."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    if _collecting in gc.callbacks:
        gc.callbacks.remove(_collecting)
