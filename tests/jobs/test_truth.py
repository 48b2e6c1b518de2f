"""`python3 tests/jobs/test_truth.py`: the same cases, on the same file, as `src/demo/truth.rs`."""

import os
import tempfile
import unittest

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


if __name__ == "__main__":
    unittest.main()
