"""Puts Feedline's hooks into a Python that `feedline run` started, then makes way for the
`sitecustomize` that would have been imported without them."""

import os
import sys

try:
    import feedline._hooks

    feedline._hooks.install()
except Exception:  # too old a Python, or anything else: the job runs as it would have
    pass


def _make_way():
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_make_way()
