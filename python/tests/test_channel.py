"""The channel and the marks, as a program uses them."""

import os
import subprocess
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import feedline  # noqa: E402
from feedline import _channel  # noqa: E402

CAPTURED = os.path.join(HERE, "../../collectors/src/inprocess/testdata/channel")


def listen(until=_channel.FOR_EVER):
    """What a reader does."""
    feedline.listening()
    _channel.words[_channel._LISTEN] = until


def regions(thread=None):
    """What a reader sees: name to (times, nanoseconds)."""
    now, found = time.monotonic_ns(), {}
    for number in range(_channel.words[_channel._USED]):
        at = 16 + 16 * number
        if thread in (None, _channel.words[at]):
            raw = b"".join(word.to_bytes(8, "little") for word in _channel.words[at + 5 : at + 16])
            clock = _channel.words[at + 2]
            spent = now - (clock & _channel.FOR_EVER) if clock & _channel.RUNNING else clock
            found[raw.rstrip(b"\0").decode()] = (_channel.words[at + 1], spent)
    return found


class Clock:
    """A clock that moves when told."""

    def __init__(self):
        self.at = 1_000_000

    def __call__(self):
        return self.at


class Fresh(unittest.TestCase):
    """Each test begins like a new process, with a clock of its own and somebody who listens."""

    def setUp(self):
        self.clock, self.was = Clock(), _channel.now
        _channel._forked()
        _channel.now = self.clock
        feedline.listening()
        listen()

    def tearDown(self):
        _channel.now = self.was
        _channel._forked()

    def spent(self):
        return {name: clock for name, (_, clock) in self.counted().items()}

    def counted(self):
        found = {}
        for number in range(_channel.words[_channel._USED]):
            at = 16 + 16 * number
            raw = b"".join(word.to_bytes(8, "little") for word in _channel.words[at + 5 : at + 16])
            clock = _channel.words[at + 2]
            spent = self.clock() - (clock & _channel.FOR_EVER) if clock & _channel.RUNNING else clock
            found[raw.rstrip(b"\0").decode()] = (_channel.words[at + 1], spent)
        return found


class Regions(Fresh):
    def test_a_nested_region_takes_its_time_from_the_one_it_lies_in(self):
        with feedline.region("outer"):
            self.clock.at += 5
            with feedline.region("inner"):
                self.clock.at += 70
            self.clock.at += 1
        self.assertEqual(self.counted(), {"outer": (1, 6), "inner": (1, 70)})

    def test_an_open_region_is_seen_before_it_ends(self):
        feedline.region("stall").__enter__()
        self.clock.at += 9_000
        self.assertEqual(self.counted(), {"stall": (0, 9_000)})

    def test_a_region_in_itself_counts_each_time_and_the_time_once(self):
        with feedline.region("again"):
            self.clock.at += 2
            with feedline.region("again"):
                self.clock.at += 3
        self.assertEqual(self.counted(), {"again": (2, 5)})

    def test_an_error_ends_a_region_and_passes(self):
        with self.assertRaises(KeyError):
            with feedline.region("fails"):
                self.clock.at += 4
                raise KeyError("the job's own")
        self.assertEqual(self.counted(), {"fails": (1, 4)})

    def test_a_decorated_function_keeps_its_name_and_its_result(self):
        @feedline.region("work")
        def double(value):
            """Doubles."""
            self.clock.at += 8
            return 2 * value

        self.assertEqual((double(4), double.__name__, double.__doc__), (8, "double", "Doubles."))
        self.assertEqual(self.counted(), {"work": (1, 8)})

    def test_what_was_left_open_within_ends_with_the_outer_one(self):
        with feedline.region("outer"):
            feedline.region("forgotten").__enter__()
            self.clock.at += 3
        self.clock.at += 100
        self.assertEqual(self.spent(), {"outer": 0, "forgotten": 3})

    def test_leaving_what_was_never_entered_changes_nothing(self):
        with feedline.region("here"):
            feedline.region("elsewhere").__exit__(None, None, None)
            self.clock.at += 5
        self.assertEqual(self.counted(), {"here": (1, 5)})

    def test_a_listener_that_comes_within_a_region_does_not_confuse_it(self):
        listen(0)
        with feedline.region("outer"):
            listen()
            with feedline.region("inner"):
                self.clock.at += 1
        self.assertEqual(self.counted(), {"inner": (1, 1)})

    def test_a_listener_that_goes_within_a_region_leaves_it_to_end_well(self):
        with feedline.region("outer"):
            self.clock.at += 1
            listen(0)
        with feedline.region("outer"):
            self.clock.at += 50
        self.assertEqual(self.counted(), {"outer": (1, 1)})

    def test_a_reader_that_says_no_more_is_forgotten(self):
        listen(self.clock.at + 10)
        self.assertTrue(feedline.listening())
        self.clock.at += 10
        self.assertFalse(feedline.listening())

    def test_more_names_than_there_is_room_for_are_counted_as_lost(self):
        for number in range(_channel.SLOTS + 7):
            with feedline.region(f"region {number}"):
                self.clock.at += 1
        self.assertEqual(_channel.words[_channel._USED], _channel.SLOTS)
        self.assertEqual(_channel.words[_channel._OVERFLOW], 7)


    def test_a_mark_under_a_signal_handler_never_waits_for_the_thread_it_interrupted(self):
        with feedline.region("known"):
            pass
        before = _channel.words[_channel._OVERFLOW]
        with _channel._lock:  # as if the signal came while the thread takes a slot
            with feedline.region("known"):
                pass
            with feedline.region("new"):
                pass
        self.assertEqual(_channel.words[_channel._OVERFLOW], before + 1)
        with feedline.region("new"):
            pass
        self.assertEqual(regions()["new"][0], 1)
        self.assertEqual(regions()["known"][0], 2)


class Steps(Fresh):
    def test_calls_part_the_time_into_steps(self):
        for _ in range(3):
            feedline.step()
            self.clock.at += 10
        self.assertEqual(self.counted(), {"step": (2, 30)})

    def test_a_step_held_in_a_block_ends_with_it(self):
        for _ in range(3):
            with feedline.step():
                self.clock.at += 10
            self.clock.at += 1
        self.assertEqual(self.counted(), {"step": (3, 30)})

    def test_a_step_called_inside_a_region_goes_on_after_it(self):
        with feedline.region("epoch"):
            feedline.step()
            self.clock.at += 4
            feedline.step()
        self.clock.at += 6
        self.assertEqual(self.counted(), {"epoch": (1, 4), "step": (1, 6)})


class Processes(unittest.TestCase):
    def tearDown(self):
        _channel._forked()

    def test_threads_count_apart(self):
        listen()

        def work():
            with feedline.region("thread"):
                time.sleep(0.01)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        with feedline.region("main"):
            for thread in threads:
                thread.join()
        self.assertEqual(list(regions(threading.get_native_id())), ["main"])
        self.assertEqual(_channel.words[_channel._USED], 3)

    def test_a_forked_child_has_a_channel_of_its_own_and_no_region_of_its_parent(self):
        listen()
        with feedline.region("parent"):
            child = os.fork()
            if child == 0:
                listen()
                with feedline.region("child"):
                    pass
                os._exit(0 if list(regions()) == ["child"] and _channel.words[2] == os.getpid() else 1)
            _, status = os.waitpid(child, 0)
        self.assertEqual(status, 0)
        self.assertEqual(regions()["parent"][0], 1)

    def test_a_reader_finds_the_channel_by_its_name(self):
        script = "import feedline, os; feedline.step(); print(os.getpid(), flush=True); input()"
        child = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.path.dirname(HERE)},
        )
        pid = int(child.stdout.readline())
        folder = f"/proc/{pid}/fd"
        names = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)]
        child.communicate(b"\n")
        self.assertEqual(names.count("/memfd:feedline (deleted)"), 1, names)

    def test_a_system_without_memory_files_runs_as_before(self):
        script = "import os; del os.memfd_create\nimport feedline\nfeedline.step()\nwith feedline.region('x'): print('ran')"
        output = subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.path.dirname(HERE)}
        )
        self.assertEqual((output.returncode, output.stdout), (0, b"ran\n"))


class Layout(Fresh):
    def test_the_captured_channel_of_the_readers_tests_is_what_is_written(self):
        words = _channel.words
        words[2], words[3] = 4242, 77
        feedline.step()
        self.clock.at += 2_000_000
        feedline.step()
        feedline.region("Zürich").__enter__()
        self.clock.at += 1_000_000
        words[_channel._OVERFLOW], words[_channel._FAILURES] = 2, 1
        for slot in (16, 32):
            words[slot] = 4243
        written = words.tobytes()[: 3 * 128]
        if os.environ.get("FEEDLINE_UPDATE"):
            with open(CAPTURED, "wb") as file:
                file.write(written)
        with open(CAPTURED, "rb") as file:
            self.assertEqual(file.read(), written)


if __name__ == "__main__":
    unittest.main()
