"""`python3 tests/jobs/test_truth.py`: the same cases, on the same file, as `src/demo/truth.rs`."""

import os
import tempfile
import unittest

import exposed
import stamps
import truth

SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "truth.jsonl")


class Share(unittest.TestCase):
    def test_a_window_of_whole_steps(self):
        self.assertAlmostEqual(truth.share(SAMPLE, 1000, 1200), 0.6)
        self.assertAlmostEqual(truth.share(SAMPLE, 1000, 1600), 0.45)

    def test_fetches_cut_by_the_window_count_with_their_part_inside(self):
        self.assertAlmostEqual(truth.share(SAMPLE, 1020, 1120), 0.4)
        self.assertAlmostEqual(truth.share(SAMPLE, 1410, 1480), 1.0)
        self.assertAlmostEqual(truth.share(SAMPLE, 1350, 1400), 0.0)

    def test_time_between_a_step_and_the_next_fetch_is_not_waiting(self):
        self.assertAlmostEqual(truth.share(SAMPLE, 1300, 1320), 0.5)

    def test_a_window_that_outlasts_the_job_is_judged_where_it_is_covered(self):
        found = truth.window(SAMPLE, 1500, 1700)
        self.assertAlmostEqual(found["share"], 0.2)
        self.assertAlmostEqual(found["covered"], 0.5)

    def test_steps_and_their_period(self):
        found = truth.window(SAMPLE, 1000, 1600)
        self.assertEqual((found["steps"], found["period_ns"], found["wait_ns"]), (6, 100, 45))
        self.assertIsNone(truth.window(SAMPLE, 1000, 1050)["period_ns"])

    def test_a_wall_clock_that_moved_is_seen(self):
        self.assertEqual(truth.window(SAMPLE, 1000, 1600)["clock_moved_ns"], 5)

    def test_a_window_without_truth_has_no_share(self):
        self.assertIsNone(truth.share(SAMPLE, 0, 1000))
        self.assertIsNone(truth.share(SAMPLE, 1600, 1700))
        self.assertIsNone(truth.share(SAMPLE, 1200, 1200))

    def test_a_broken_line_is_named(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write('{"truth": 1}\n{"step": 0, "fetch_start_ns": 1}\n')
            file.flush()
            with self.assertRaisesRegex(ValueError, ":2: expected a step"):
                truth.read(file.name)

    def test_what_a_log_writes_is_what_a_reader_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "truth.jsonl")
            log = truth.Log(path, "test")
            for _ in range(3):
                log.fetch()
                log.step()
                log.end()
            log.event("done")
            log.close()
            steps = truth.read(path)
        self.assertEqual(len(steps), 3)
        self.assertTrue(all(a <= b <= c for a, b, c, _ in steps))


class Causes(unittest.TestCase):
    def check(self, t0, t1, **wanted):
        found = truth.causes(SAMPLE, t0, t1)
        wanted = {name.replace("_", "."): share for name, share in wanted.items()}
        self.assertEqual({cause: round(share, 9) for cause, share in found.items()}, wanted)

    def test_what_no_span_covers_is_compute_and_all_adds_up(self):
        self.check(1100, 1200, fetch_storage=0.5, handoff=0.3, compute=0.2)
        self.check(1200, 1300, compute=1.0)
        self.assertAlmostEqual(sum(truth.causes(SAMPLE, 1000, 1600).values()), 1.0)

    def test_spans_cut_by_the_window_count_with_their_part_inside(self):
        self.check(1140, 1180, fetch_storage=0.25, handoff=0.75, compute=0.0)
        self.check(1390, 1440, decode=0.8, checkpoint=0.2, compute=0.0)

    def test_a_file_or_a_window_without_causes_has_none(self):
        self.assertIsNone(truth.causes(SAMPLE, 1600, 1700))
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write('{"step": 0, "fetch_start_ns": 1, "fetch_end_ns": 2, "step_end_ns": 3}\n')
            file.flush()
            self.assertIsNone(truth.causes(file.name, 0, 10))


def batch(*phases, worker=1, first=False):
    """A batch whose phases are (cause, start, end[, queued])."""
    made = [stamps.Phase(*(phase + (0,))[:4]) for phase in phases]
    return stamps.Batch(worker, first, made[0].start, made[-1].end, made)


class Exposed(unittest.TestCase):
    MADE = batch(("fetch.storage", 10, 50), ("decode", 50, 80))

    def test_a_wait_has_the_causes_of_what_its_maker_was_at(self):
        self.assertEqual(exposed.spans(20, 80, self.MADE), [("fetch.storage", 20, 50), ("decode", 50, 80)])

    def test_what_was_done_before_anybody_waited_is_not_exposed(self):
        self.assertEqual(exposed.spans(60, 70, self.MADE), [("decode", 60, 70)])
        self.assertEqual(exposed.spans(90, 90, self.MADE), [])

    def test_from_complete_to_in_hand_is_handoff(self):
        self.assertEqual(exposed.spans(70, 100, self.MADE), [("decode", 70, 80), ("handoff", 80, 100)])
        self.assertEqual(exposed.spans(90, 100, self.MADE), [("handoff", 90, 100)])

    def test_until_a_new_worker_has_made_its_first_batch_is_startup(self):
        new = batch(("fetch.cache", 50, 60), ("decode", 60, 80), first=True)
        self.assertEqual(exposed.spans(0, 90, new), [("startup", 0, 80), ("handoff", 80, 90)])
        ready = batch(("decode", 20, 30), worker=2, first=True)
        self.assertEqual(exposed.spans(0, 80, new, [(1, ready)]), [("startup", 0, 80)])

    def test_before_a_worker_that_is_there_begins_is_handoff(self):
        self.assertEqual(exposed.spans(0, 20, self.MADE), [("handoff", 0, 10), ("fetch.storage", 10, 20)])

    def test_a_gap_between_two_phases_goes_to_the_one_before(self):
        gap = batch(("fetch.network", 0, 10), ("decode", 20, 30))
        self.assertEqual(exposed.spans(0, 30, gap), [("fetch.network", 0, 20), ("decode", 20, 30)])

    def test_queueing_is_contention_only_where_the_cores_are_taken_from_outside(self):
        slow = batch(("decode", 0, 100, 60))
        self.assertEqual(exposed.spans(0, 100, slow), [("decode", 0, 100)])
        self.assertEqual(exposed.spans(0, 100, slow, contended=True), [("decode", 0, 40), ("contention", 40, 100)])

    def test_threads_that_hand_over_queue_as_well(self):
        made = batch(("decode", 0, 10))
        after = batch(("decode", 12, 30))._replace(beside=6)
        self.assertEqual(exposed.spans(0, 20, made, [(2, after)]), [("decode", 0, 10), ("handoff", 10, 20)])
        late = exposed.spans(0, 20, made, [(2, after)], contended=True)
        self.assertEqual(late, [("decode", 0, 10), ("handoff", 10, 14), ("contention", 14, 20)])
        later = exposed.spans(0, 20, made, [(2, after)], contended=True, queued=9)
        self.assertEqual(later, [("decode", 0, 10), ("contention", 10, 20)])

    def test_a_wait_without_stamps_is_unknown(self):
        self.assertEqual(exposed.spans(0, 10, None), [("unknown", 0, 10)])

    def test_one_slow_batch_holds_back_later_ones_that_are_ready(self):
        slow, ready = batch(("decode", 0, 100)), batch(("decode", 0, 30), worker=2)
        self.assertEqual(exposed.spans(10, 100, slow, [(1, ready)]), [("decode", 10, 30), ("handoff", 30, 100)])
        self.assertEqual(exposed.spans(10, 100, slow, [(1, ready)], ordered=False), [("decode", 10, 100)])

    def test_no_line_stands_while_the_others_are_still_at_work(self):
        slow = batch(("decode", 0, 100))
        others = [(1, batch(("decode", 0, 30), worker=2)), (3, batch(("decode", 30, 70), worker=2))]
        self.assertEqual(exposed.spans(0, 100, slow, others), [("decode", 0, 70), ("handoff", 70, 100)])

    def test_at_least_half_of_the_others_must_be_idle(self):
        slow, done = batch(("decode", 0, 100)), batch(("decode", 0, 20), worker=2)
        busy = [batch(("decode", 0, 90), worker=worker) for worker in (3, 4)]
        self.assertEqual(exposed.spans(0, 80, slow, [(1, done), (2, busy[0])]), [("decode", 0, 20), ("handoff", 20, 80)])
        self.assertEqual(exposed.spans(0, 80, slow, [(1, done), (2, busy[0]), (3, busy[1])]), [("decode", 0, 80)])

    def test_the_spans_of_a_wait_have_no_gaps_and_no_overlaps(self):
        made = batch(("fetch.cache", 5, 9, 3), ("decode", 11, 40, 17), ("decode", 40, 44))
        others = [(1, batch(("decode", 0, 22), worker=2)), (2, batch(("decode", 25, 33), worker=2))]
        for start in range(50):
            for end in range(start, 50):
                for contended in (False, True):
                    found = exposed.spans(start, end, made, others, contended=contended)
                    edges = [start] + [b for _, _, b in found]
                    self.assertEqual([a for _, a, _ in found], edges[:-1])
                    self.assertEqual(edges[-1], end)


class Stamps(unittest.TestCase):
    def test_what_a_worker_packs_the_trainer_unpacks(self):
        stamps.begin()
        stamps.MINE.made_by = None
        stamps.add("fetch.network", 5, 9)
        stamps.add("decode", 9, 30, 4)
        found = stamps.unpack(stamps.take())
        self.assertEqual((found.first, found.begun, found.done), (True, 5, 30))
        self.assertEqual(found.phases, [("fetch.network", 5, 9, 0), ("decode", 9, 30, 4)])
        self.assertIsNone(stamps.unpack(stamps.take()))

    def test_a_log_joins_the_stamps_and_the_spans_of_a_step(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "truth.jsonl")
            stamps.take()  # what follows is not the first batch
            log = truth.Log(path, "test", lag=2)
            for _ in range(4):
                log.fetch()
                stamps.begin()
                with stamps.phase("decode"):
                    sum(range(20000))
                log.step(stamps.take())
                with log.span("checkpoint"):
                    sum(range(20000))
                log.end()
            log.close()
            found = truth.read_all(path)
            shares = truth.causes(path, 0, 1 << 62)
        self.assertEqual(len(found), 4)
        for (start, got, end, _), spans in found:
            self.assertEqual([cause for cause, _, _ in spans if cause in ("decode", "checkpoint")], ["decode", "checkpoint"])
            waited = sum(b - a for _, a, b in spans if b <= got)
            self.assertEqual(waited, got - start)
            self.assertTrue(all(start <= a <= b <= end for _, a, b in spans))
        self.assertAlmostEqual(sum(shares.values()), 1.0)


if __name__ == "__main__":
    unittest.main()
