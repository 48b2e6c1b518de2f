"""`python3 -m unittest tests/jobs/test_regimes.py`: when surroundings change, and who sees it."""

import os
import tempfile
import unittest
from unittest import mock

import dial
import regimes
import sources

AT_RANDOM = {"turns": "latency", "on": [45, 90], "calm": [4, 9], "bad": [3, 7]}
RECURS = {"turns": "rate", "on": [1, 2], "period": [15, 25], "part": [0.2, 0.4], "jitter": [0.05, 0.05]}


class Schedule(unittest.TestCase):
    def test_a_seed_repeats_and_seeds_differ(self):
        for regime in (AT_RANDOM, RECURS):
            self.assertEqual(regimes.schedule(regime, "a"), regimes.schedule(regime, "a"))
            self.assertNotEqual(regimes.schedule(regime, "a"), regimes.schedule(regime, "b"))

    def lengths(self, regime, seed, seconds):
        """Calm and bad times, and how bad."""
        changes = [(0.0, 0.0), *regimes.schedule(regime, seed, seconds)]
        spans = [(b - a, before, value) for (a, before), (b, value) in zip(changes, changes[1:])]
        calm = [span for span, before, _ in spans if before == 0.0]
        return calm, [span for span, before, _ in spans if before], [value for _, before, value in spans if before == 0.0]

    def test_what_comes_at_random_has_no_memory(self):
        calm, bad, levels = self.lengths(AT_RANDOM, "a", 20000.0)
        for found, least, mean in ((calm, 4, 9), (bad, 3, 7)):
            self.assertTrue(all(least <= span <= 4 * mean for span in found))
            self.assertAlmostEqual(sum(found) / len(found), mean, delta=0.8)
        self.assertTrue(all(45 <= level <= 90 for level in levels))
        # Of those that have lasted for five seconds more, as many last for another five as of all.
        rest = [span - 4 for span in calm]
        part = sum(span > 5 for span in rest) / len(rest)
        older = sum(span > 10 for span in rest) / sum(span > 5 for span in rest)
        self.assertAlmostEqual(part, older, delta=0.08)

    def test_what_recurs_keeps_the_period_of_its_run(self):
        periods = set()
        for seed in "abc":
            calm, bad, _ = self.lengths(RECURS, seed, 300.0)
            cycles = [a + b for a, b in zip(calm, bad)]
            middle = sum(cycles) / len(cycles)
            self.assertTrue(15 * 0.95 <= middle <= 25 * 1.05)
            self.assertTrue(all(abs(cycle / middle - 1) < 0.11 for cycle in cycles))
            periods.add(round(middle, 1))
        self.assertEqual(len(periods), 3)

    def test_what_rises_gets_worse_step_by_step_and_ends_at_once(self):
        changes = regimes.schedule({**AT_RANDOM, "rise": [5, 5]}, "a", 60.0)
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
