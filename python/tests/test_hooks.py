"""The hooks, in a Python that is started as `feedline run` starts it."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)

# Prints what a reader would see, as the last line: {region: [times, milliseconds]} and errors.
DUMP = """
def dump():
    import json
    from feedline import _channel as c
    found = {}
    for number in range(c.words[c._USED]):
        at = 16 + 16 * number
        name = b"".join(w.to_bytes(8, "little") for w in c.words[at + 5 : at + 16]).rstrip(b"\\0").decode()
        clock = c.words[at + 2]
        spent = c.now() - (clock & c.FOR_EVER) if clock & c.RUNNING else clock
        found[name] = [c.words[at + 1], spent / 1e6]
    found["failures"] = c.words[c._FAILURES]
    print(json.dumps(found))
"""

# A stand-in with the names that are hooked, so that no framework is needed.
LOADER = """
import time

class DataLoader:
    def __init__(self, batches):
        self.batches = batches
    def __iter__(self):
        '''Starts an epoch.'''
        time.sleep(0.01)
        return _SingleProcessDataLoaderIter(self.batches)

class _BaseDataLoaderIter:
    def __init__(self, batches):
        self.left = batches
    def __iter__(self):
        return self
    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        time.sleep(0.02)
        return self.left

class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    pass
"""

OPTIMIZER = """
class Optimizer:
    def __init__(self, rate):
        self.rate = rate

class SGD(Optimizer):
    def step(self, closure=None):
        return ("stepped", closure)

class Nested(SGD):
    def step(self, closure=None):
        return super().step(closure)
"""


def run(script, files=(), args=(), hooks=True, **env):
    """What a script prints as its last line, read as JSON; `files` are modules it can import."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in dict(files).items():
            path = os.path.join(folder, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(textwrap.dedent(text))
        for at, _, names in list(os.walk(folder)):
            if at != folder and "__init__.py" not in names:
                open(os.path.join(at, "__init__.py"), "w").close()
        path = [os.path.join(PACKAGE, "hooks")] if hooks else []
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, PACKAGE, folder]), **env}
        if hooks:
            env["FEEDLINE_HOOKS"] = "1"
        main = os.path.join(folder, "main.py")
        with open(main, "w") as file:
            file.write(DUMP + textwrap.dedent(script))
        done = subprocess.run([sys.executable, "-B", main, *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        raise AssertionError(done.stderr.decode())
    return json.loads(done.stdout.decode().splitlines()[-1])


class Loaders(unittest.TestCase):
    def test_an_epoch_is_counted_by_batches_and_its_steps_lie_between_them(self):
        script = """
        import time
        from torch.utils.data.dataloader import DataLoader
        for batch in DataLoader(5):
            time.sleep(0.01)
        dump()
        """
        found = run(script, {"torch/utils/data/dataloader.py": LOADER})
        self.assertEqual({name: found[name][0] for name in ("data", "step", "startup")}, {"data": 5, "step": 5, "startup": 1})
        self.assertGreater(found["data"][1], 99)
        self.assertGreater(found["step"][1], 49)
        self.assertLess(found["step"][1], found["data"][1])
        self.assertEqual(found["failures"], 0)

    def test_a_validation_inside_an_epoch_is_no_boundary_of_steps(self):
        script = """
        from torch.utils.data.dataloader import DataLoader
        for batch in DataLoader(3):
            for held_out in DataLoader(4):
                pass
        dump()
        """
        found = run(script, {"torch/utils/data/dataloader.py": LOADER})
        self.assertEqual((found["data"][0], found["step"][0]), (3 + 3 * 4, 3))

    def test_a_loop_that_is_left_early_hands_the_steps_to_the_next(self):
        script = """
        from torch.utils.data.dataloader import DataLoader
        for batch in DataLoader(9):
            break
        for batch in DataLoader(3):
            pass
        dump()
        """
        # The step that was left ends when the next loop's first begins.
        self.assertEqual(run(script, {"torch/utils/data/dataloader.py": LOADER})["step"][0], 4)

    def test_a_job_that_marks_its_steps_itself_is_believed(self):
        script = """
        import feedline
        from torch.utils.data.dataloader import DataLoader
        for _ in range(2):
            with feedline.step():
                for batch in DataLoader(3):
                    pass
        dump()
        """
        found = run(script, {"torch/utils/data/dataloader.py": LOADER})
        self.assertEqual((found["data"][0], found["step"][0]), (6, 2))


class Functions(unittest.TestCase):
    def test_an_optimizer_steps_as_before_and_is_counted_once(self):
        script = """
        from torch.optim.optimizer import Nested, SGD
        sgd, nested = SGD(0.1), Nested(rate=0.2)
        assert sgd.step(closure=7) == ("stepped", 7) and nested.step(8) == ("stepped", 8)
        assert nested.rate == 0.2
        dump()
        """
        self.assertEqual(run(script, {"torch/optim/optimizer.py": OPTIMIZER})["optimizer"][0], 2)

    def test_names_documents_signatures_and_modules_stay_what_they_were(self):
        script = """
        import inspect, pickle
        from torch.serialization import save
        from torch.utils.data import dataloader
        assert save.__name__ == "save" and save.__doc__ == "Saves." and save.__module__ == "torch.serialization"
        assert str(inspect.signature(save)) == "(obj, f, *, deep=False)", inspect.signature(save)
        assert pickle.loads(pickle.dumps(save)) is save
        assert dataloader.DataLoader.__iter__.__doc__ == "Starts an epoch."
        assert type(dataloader.__loader__).__name__ == "SourceFileLoader", dataloader.__loader__
        assert dataloader.__spec__.loader is dataloader.__loader__ and inspect.getsource(dataloader)
        assert save([1], "f") == ([1], "f", False)
        dump()
        """
        saver = "def save(obj, f, *, deep=False):\n    'Saves.'\n    return obj, f, deep\n"
        found = run(script, {"torch/serialization.py": saver, "torch/utils/data/dataloader.py": LOADER})
        self.assertEqual((found["checkpoint"][0], found["failures"]), (1, 0))

    def test_an_error_of_the_job_passes_and_its_time_is_counted(self):
        script = """
        from torch.serialization import load
        try:
            load("nowhere")
        except FileNotFoundError as error:
            assert error.filename == "nowhere"
        dump()
        """
        self.assertEqual(run(script, {"torch/serialization.py": "def load(f):\n    open(f)\n"})["checkpoint"][0], 1)

    def test_hooks_that_fail_are_counted_and_not_seen(self):
        script = """
        import feedline._channel as channel
        def broken(*_):
            raise RuntimeError("in the hook")
        channel.begin = broken
        from torch.utils.data.dataloader import DataLoader
        assert list(DataLoader(2)) == [1, 0]
        import feedline
        with feedline.region("x"):
            pass
        dump()
        """
        found = run(script, {"torch/utils/data/dataloader.py": LOADER})
        self.assertGreaterEqual(found["failures"], 4)
        self.assertNotIn("data", found)

    def test_a_compiler_that_traces_sees_no_hook(self):
        script = """
        import torch.compiler, torch.serialization
        torch.serialization.save()
        torch.compiler.tracing = True
        torch.serialization.save()
        dump()
        """
        compiler = "tracing = False\ndef is_compiling():\n    return tracing\n"
        found = run(script, {"torch/compiler.py": compiler, "torch/serialization.py": "def save(): pass\n"})
        self.assertEqual(found["checkpoint"][0], 1)

    def test_collections_of_garbage_are_timed(self):
        script = """
        import gc
        gc.disable()
        from feedline import _channel as c
        before = gc.collect()
        gc.collect()
        dump()
        """
        self.assertGreaterEqual(run(script)["gc"][0], 2)

    def test_nothing_is_imported_that_the_job_does_not_import(self):
        script = """
        import json, sys
        names = [name for name in sys.modules if name.split(".")[0] in ("torch", "jax", "tensorflow", "grain")]
        print(json.dumps(names))
        """
        files = {"torch/utils/data/dataloader.py": LOADER, "jax/__init__.py": "", "tensorflow/__init__.py": ""}
        self.assertEqual(run(script, files), [])


class Processes(unittest.TestCase):
    def test_the_sitecustomize_of_the_machine_still_runs(self):
        files = {"sitecustomize.py": "import builtins\nbuiltins.customized = __name__\n"}
        script = """
        import json, sitecustomize, sys
        print(json.dumps([customized, sitecustomize.__file__.endswith("hooks/sitecustomize.py")]))
        """
        self.assertEqual(run(script, files), ["sitecustomize", False])

    def test_children_that_are_spawned_forked_or_run_have_the_hooks(self):
        script = """
        import multiprocessing, os, subprocess, sys
        def child(queue):
            from feedline import _channel, _hooks
            with __import__("feedline").region("child"):
                pass
            queue.put(_hooks._finder in sys.meta_path and _channel.words[2] == os.getpid())
        if __name__ == "__main__":
            import json
            found = []
            for method in ("fork", "spawn", "forkserver"):
                context = multiprocessing.get_context(method)
                queue = context.Queue()
                process = context.Process(target=child, args=(queue,))
                process.start()
                found.append(queue.get(timeout=60))
                process.join()
            code = "import sys, feedline._hooks as h; print(h._finder in sys.meta_path)"
            found.append(subprocess.check_output([sys.executable, "-c", code]).strip() == b"True")
            print(json.dumps(found))
        """
        self.assertEqual(run(script), [True] * 4)

    def test_without_hooks_marks_alone_are_quiet(self):
        script = """
        import feedline, json, sys
        with feedline.region("x"):
            feedline.step()
        from feedline import _channel
        print(json.dumps([_channel.words[_channel._USED], "feedline._hooks" in sys.modules]))
        """
        self.assertEqual(run(script, hooks=False), [0, False])


@unittest.skipUnless(
    subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0, "PyTorch is not installed"
)
class PyTorch(unittest.TestCase):
    JOB = """
    import sys, time, torch
    from torch.utils.data import DataLoader, Dataset
    class Slow(Dataset):
        def __len__(self):
            return 24
        def __getitem__(self, index):
            time.sleep(0.004)
            return torch.zeros(3)
    if __name__ == "__main__":
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for batch in DataLoader(Slow(), batch_size=4, num_workers=int(sys.argv[1])):
            model(batch).sum().backward()
            optimizer.step()
            schedule.step()
        torch.save(model.state_dict(), sys.argv[0] + ".pt")
        torch.load(sys.argv[0] + ".pt")
        dump()
    """

    def test_a_loader_without_workers_says_what_of_its_time_is_fetching(self):
        found = run(self.JOB, args=["0"])
        counts = {name: found[name][0] for name in ("data", "worker.fetch", "worker.collate", "step", "optimizer", "checkpoint")}
        self.assertEqual(counts, {"data": 6, "worker.fetch": 6, "worker.collate": 6, "step": 6, "optimizer": 6, "checkpoint": 2})
        self.assertGreater(found["data"][1], 24 * 4)
        self.assertGreater(found["worker.fetch"][1] + found["worker.collate"][1], 0.9 * found["data"][1])
        self.assertEqual(found["failures"], 0)

    def test_a_loader_with_workers_counts_its_batches_in_the_trainer(self):
        found = run(self.JOB, args=["2"])
        self.assertEqual((found["data"][0], found["step"][0], found["failures"]), (6, 6, 0))
        self.assertNotIn("worker.fetch", found)

    def test_collectives_over_one_process_are_counted(self):
        script = """
        import sys, torch, torch.distributed as dist
        if not (dist.is_available() and dist.is_gloo_available()):
            print("null")
            sys.exit()
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[0]}.store", rank=0, world_size=1)
        one = torch.ones(1)
        dist.all_reduce(one)
        dist.all_reduce(one, async_op=True).wait()
        dist.barrier()
        assert one.item() == 1
        dump()
        """
        found = run(script)
        if found is None:
            self.skipTest("this PyTorch has no gloo")
        self.assertGreaterEqual(found["collective"][0], 4)
        self.assertEqual(found["failures"], 0)


if __name__ == "__main__":
    unittest.main()
