"""`python3 -m unittest tests/jobs/test_regimes.py`: when surroundings change, and who sees it."""

import os
import tempfile
import unittest
from unittest import mock

import dial
import regimes
import sources

REGIME = {"turns": "latency", "on": [45, 90], "calm": [7, 15], "bad": [5, 11]}


class Schedule(unittest.TestCase):
    def test_a_seed_repeats_and_seeds_differ(self):
        self.assertEqual(regimes.schedule(REGIME, "a"), regimes.schedule(REGIME, "a"))
        self.assertNotEqual(regimes.schedule(REGIME, "a"), regimes.schedule(REGIME, "b"))

    def test_calm_and_bad_times_come_in_turn_within_their_ranges(self):
        changes = regimes.schedule(REGIME, "a", 300.0)
        self.assertGreaterEqual(len(changes), 2 * 300 / 26 - 2)
        before = 0.0
        for number, (when, value) in enumerate(changes):
            low, high = REGIME["bad" if number % 2 else "calm"]
            self.assertTrue(low <= when - before <= high, (number, when, before))
            self.assertEqual(value == 0.0, bool(number % 2))
            self.assertTrue(value == 0.0 or 45 <= value <= 90)
            before = when

    def test_what_rises_gets_worse_step_by_step_and_ends_at_once(self):
        changes = regimes.schedule({**REGIME, "rise": [5, 5]}, "a", 60.0)
        first = [value for _, value in changes[: [value for _, value in changes].index(0.0)]]
        self.assertEqual(first, sorted(first))
        self.assertEqual(len(first), 11)

    def test_a_regime_of_the_job_alone_changes_nothing(self):
        self.assertEqual(regimes.schedule({}, "a"), [])

    def test_there_are_enough_kinds_and_each_can_be_drawn(self):
        kinds = regimes.kinds()
        self.assertGreaterEqual(len(kinds), 12)
        turned = {"none", "neighbours", "quota", *dial.NAMES}
        for name, entry in kinds.items():
            self.assertIn("{seed}", entry["argv"], name)
            self.assertIn(entry["regime"].get("turns", "none"), turned, name)
            first, second = (regimes.varied(entry["vary"], f"{name} {seed}") for seed in (1, 1))
            self.assertEqual(first, second)
            self.assertEqual(len(first), 2 * len(entry["vary"]))
            if "on" in entry["regime"]:
                # A recording of a minute sees several changes.
                self.assertGreaterEqual(len(regimes.schedule(entry["regime"], f"{name} 1", 60.0)), 4, name)


def small(folder, size, name="cold.shard"):
    """A shard that takes no time to make."""
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(bytes(4 << 20))
    return path


class Dials(unittest.TestCase):
    def test_what_one_turns_the_other_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            turned = dial.Dial(os.path.join(folder, "dial")).make()
            read = dial.maybe(turned.path)
            self.assertEqual(read.get("latency"), 0.0)
            turned.set("latency", 40.0)
            turned.set("cold", 8.0)
            self.assertEqual([read.get(name) for name in dial.NAMES], [40.0, 0.0, 0.0, 8.0])
        self.assertEqual(dial.maybe(None).get("slow"), 0.0)

    def test_a_source_reads_from_the_disk_while_the_dial_says_so_and_says_what_it_costs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sample")
            with open(path, "wb") as file:
                file.write(b"sample")
            turned = dial.Dial(os.path.join(folder, "dial")).make()
            with mock.patch.object(sources, "shard", small):
                source = sources.Dialled(folder, turned.path)
            self.assertEqual((source.cause, source.read(path)), ("fetch.cache", b"sample"))
            turned.set("cold", 2.0)
            self.assertEqual((source.cause, source.read(path)), ("fetch.storage", b"sample"))

    def test_a_worker_reads_a_shard_first_and_then_every_so_many_samples(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sample")
            with open(path, "wb") as file:
                file.write(b"sample")
            with mock.patch.object(sources, "shard", small):
                source = sources.Shards(folder, 1, 3)
            causes = []
            for _ in range(7):
                causes.append(source.cause)
                source.read(path)
            self.assertEqual([cause == "fetch.storage" for cause in causes], [True, False, False, True, False, False, True])


if __name__ == "__main__":
    unittest.main()
