//! What a job knows about itself: when it fetched, and when it computed.
//!
//! The format and its meaning are those of `tests/jobs/truth.py`: JSON lines, one a step, with
//! `fetch_start_ns` (taken before the job asks for a batch), `fetch_end_ns`, `step_end_ns`, all
//! nanoseconds since the Unix epoch, and where the job has it `mono_ns`, its monotonic clock at
//! `fetch_start_ns`. Lines without `step` are for people. A job that knows why also gives `spans`:
//! the causes of the parts of a step that were no compute, as `["CAUSE", FROM_NS, TO_NS]`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use feedline_traces::{Error, Result, Ts};
use serde::Deserialize;

/// One step of the job, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Step {
    /// The job asked for a batch.
    #[serde(rename = "fetch_start_ns")]
    pub fetch_start: i64,
    /// The batch was there.
    #[serde(rename = "fetch_end_ns")]
    pub fetch_end: i64,
    /// The work on it was done.
    #[serde(rename = "step_end_ns")]
    pub step_end: i64,
    /// The monotonic clock when the job asked, where it logs one.
    #[serde(rename = "mono_ns", default)]
    pub mono: Option<i64>,
}

/// A part of a step that was no compute.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Span(
    /// Its cause, by the names of the table `cause`.
    pub String,
    /// Its start in nanoseconds since the Unix epoch.
    pub i64,
    /// Its end.
    pub i64,
);

/// The head of a truth file, as far as programs read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Head {
    /// The process that logs.
    pub pid: Option<u32>,
}

/// All that a job logged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Truth {
    /// Who logged it.
    pub head: Head,
    /// Its steps, oldest first.
    pub steps: Vec<Step>,
    /// Parts of the steps that were no compute, in order; `None` where the job logs no causes.
    pub spans: Option<Vec<Span>>,
}

/// The truth about one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Told {
    /// Time in fetches over the covered time, 0 to 1; a fetch cut by the window counts with its
    /// part inside.
    pub share: f64,
    /// The part of the window between the first fetch and the end of the last step, 0 to 1.
    pub covered: f64,
    /// Fetches begun in the window.
    pub steps: usize,
    /// Mean time from fetch to fetch in nanoseconds; `None` below two steps.
    pub period_ns: Option<i64>,
    /// Mean fetch in nanoseconds; `None` below two steps.
    pub wait_ns: Option<i64>,
    /// How far the wall clock moved against the monotonic one over the whole log, in nanoseconds;
    /// `None` where the job logs no monotonic time.
    pub clock_moved_ns: Option<i64>,
}

impl Truth {
    /// Reads a truth file.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read, or a line is no JSON or lacks a time.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(|e| Error::io(path.display(), &e))?;
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|e| e.at(path.display()))
    }

    /// Parses the text of a truth file.
    ///
    /// A last line without a newline was cut short by the end of the job and is left out.
    ///
    /// # Errors
    ///
    /// At the first whole line that is no JSON or lacks a time, naming it.
    pub fn parse(text: &str) -> Result<Self> {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut truth = Self::default();
        for (index, line) in whole.lines().enumerate() {
            let wrong = || {
                let start: String = line.chars().take(80).collect();
                Error::new(format!("{}: expected a step as JSON, found `{start}`", index + 1))
            };
            let value: serde_json::Value = serde_json::from_str(line).map_err(|_| wrong())?;
            if value.get("step").is_some() {
                truth.steps.push(Step::deserialize(&value).map_err(|_| wrong())?);
                if let Some(spans) = value.get("spans") {
                    let spans = Vec::<Span>::deserialize(spans).map_err(|_| wrong())?;
                    truth.spans.get_or_insert_default().extend(spans);
                }
            } else if value.get("truth").is_some() {
                truth.head = Head::deserialize(&value).map_err(|_| wrong())?;
            }
        }
        Ok(truth)
    }

    /// The true share of each cause in the covered part of `from` up to `to`, `compute` for what no
    /// span covers; they add up to one. `None` where the job logs no causes or no step lies in it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a span of less than 104 days is exact")]
    pub fn causes(&self, from: Ts, to: Ts) -> Option<BTreeMap<String, f64>> {
        let spans = self.spans.as_ref()?;
        let (start, end) = (from.0.max(self.steps.first()?.fetch_start), to.0.min(self.steps.last()?.step_end));
        if end <= start {
            return None;
        }
        let mut times = BTreeMap::from([("compute".to_owned(), end - start)]);
        for Span(cause, a, b) in spans {
            let inside = (*b.min(&end)).saturating_sub(*a.max(&start));
            if inside > 0 {
                *times.entry(cause.clone()).or_default() += inside;
                *times.entry("compute".to_owned()).or_default() -= inside;
            }
        }
        Some(times.into_iter().map(|(cause, time)| (cause, time as f64 / (end - start) as f64)).collect())
    }

    /// The truth about `from` up to `to`; `None` where no step lies in it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a span of less than 104 days is exact")]
    pub fn window(&self, from: Ts, to: Ts) -> Option<Told> {
        let (first, last) = (self.steps.first()?, self.steps.last()?);
        let (start, end) = (from.0.max(first.fetch_start), to.0.min(last.step_end));
        if end <= start {
            return None;
        }
        let part = |step: &Step| (step.fetch_end.min(end).saturating_sub(step.fetch_start.max(start))).max(0);
        let waited: i64 = self.steps.iter().map(part).sum();
        let inside: Vec<&Step> = self.steps.iter().filter(|s| (from.0..to.0).contains(&s.fetch_start)).collect();
        let count = i64::try_from(inside.len()).unwrap_or(i64::MAX);
        let span = inside.first().zip(inside.last()).filter(|_| count > 1);
        let waits = inside.iter().map(|s| s.fetch_end.saturating_sub(s.fetch_start));
        let offsets = self.steps.iter().filter_map(|s| s.mono.map(|mono| s.fetch_start.saturating_sub(mono)));
        let moved = offsets.clone().max().zip(offsets.min());
        Some(Told {
            share: waited as f64 / (end - start) as f64,
            covered: (end - start) as f64 / to.since(from) as f64,
            steps: inside.len(),
            period_ns: span.map(|(a, b)| (b.fetch_start - a.fetch_start) / (count - 1)),
            wait_ns: span.map(|_| waits.sum::<i64>() / count),
            clock_moved_ns: moved.map(|(most, least)| most.saturating_sub(least)),
        })
    }
}

/// Writes a truth file. Lines wait in memory for about a second, and are written between steps.
#[derive(Debug)]
pub struct Log {
    file: fs::File,
    lines: String,
    steps: u64,
    flushed: i64,
}

impl Log {
    /// Starts a truth file that every user may read.
    ///
    /// # Errors
    ///
    /// Where the file cannot be written.
    pub fn create(path: &Path, job: &str) -> Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let place = |e: std::io::Error| Error::io(path.display(), &e);
        let file = fs::File::create(path).map_err(place)?;
        file.set_permissions(fs::Permissions::from_mode(0o644)).map_err(place)?;
        let head = serde_json::json!({"truth": 1, "job": job, "pid": std::process::id()});
        Ok(Self { file, lines: format!("{head}\n"), steps: 0, flushed: 0 })
    }

    /// Adds a step; `mono` of the step is not written, as a Feedline clock is monotonic already.
    ///
    /// # Errors
    ///
    /// Where a second has passed and the lines cannot be written.
    pub fn step(&mut self, step: &Step) -> Result<()> {
        self.lines.push_str(&format!(
            "{{\"step\": {}, \"fetch_start_ns\": {}, \"fetch_end_ns\": {}, \"step_end_ns\": {}}}\n",
            self.steps, step.fetch_start, step.fetch_end, step.step_end
        ));
        self.steps += 1;
        if step.step_end.saturating_sub(self.flushed) > 1_000_000_000 {
            self.flushed = step.step_end;
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the lines that wait.
    ///
    /// # Errors
    ///
    /// Where they cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.file.write_all(self.lines.as_bytes()).map_err(|e| Error::io("truth file", &e))?;
        self.lines.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(from: i64, to: i64) -> Option<Told> {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/truth.jsonl");
        Truth::read(&sample).unwrap().window(Ts(from), Ts(to))
    }

    fn share(from: i64, to: i64) -> f64 {
        (told(from, to).unwrap().share * 1e9).round() / 1e9
    }

    #[test]
    fn a_window_of_whole_steps() {
        assert_eq!((share(1000, 1200), share(1000, 1600)), (0.6, 0.45));
    }

    #[test]
    fn fetches_cut_by_the_window_count_with_their_part_inside() {
        assert_eq!((share(1020, 1120), share(1410, 1480), share(1350, 1400)), (0.4, 1.0, 0.0));
    }

    #[test]
    fn time_between_a_step_and_the_next_fetch_is_not_waiting() {
        assert_eq!(share(1300, 1320), 0.5);
    }

    #[test]
    fn a_window_that_outlasts_the_job_is_judged_where_it_is_covered() {
        let told = told(1500, 1700).unwrap();
        assert_eq!((told.share, told.covered), (0.2, 0.5));
    }

    #[test]
    fn steps_and_their_period() {
        let whole = told(1000, 1600).unwrap();
        assert_eq!((whole.steps, whole.period_ns, whole.wait_ns), (6, Some(100), Some(45)));
        assert_eq!(told(1000, 1050).unwrap().period_ns, None);
    }

    #[test]
    fn a_wall_clock_that_moved_is_seen() {
        assert_eq!(told(1000, 1600).unwrap().clock_moved_ns, Some(5));
    }

    #[test]
    fn a_window_without_truth_has_no_share() {
        assert_eq!((told(0, 1000), told(1600, 1700), told(1200, 1200)), (None, None, None));
    }

    fn causes(from: i64, to: i64) -> String {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/truth.jsonl");
        let found = Truth::read(&sample).unwrap().causes(Ts(from), Ts(to)).unwrap_or_default();
        found.iter().map(|(cause, share)| format!("{cause} {share:.2} ")).collect::<String>().trim_end().to_owned()
    }

    #[test]
    fn what_no_span_covers_is_compute() {
        assert_eq!(causes(1100, 1200), "compute 0.20 fetch.storage 0.50 handoff 0.30");
        assert_eq!(causes(1200, 1300), "compute 1.00");
    }

    #[test]
    fn spans_cut_by_the_window_count_with_their_part_inside() {
        assert_eq!(causes(1140, 1180), "compute 0.00 fetch.storage 0.25 handoff 0.75");
        assert_eq!(causes(1390, 1440), "checkpoint 0.20 compute 0.00 decode 0.80");
    }

    #[test]
    fn a_log_or_a_window_without_causes_has_none() {
        assert_eq!(causes(1600, 1700), "");
        let plain = "{\"step\": 0, \"fetch_start_ns\": 1, \"fetch_end_ns\": 2, \"step_end_ns\": 3}\n";
        assert_eq!(Truth::parse(plain).unwrap().causes(Ts(0), Ts(10)), None);
    }

    #[test]
    fn the_head_says_who_logs() {
        let head = Truth::parse("{\"truth\": 1, \"job\": \"x\", \"pid\": 4242}\n").unwrap().head;
        assert_eq!(head.pid, Some(4242));
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = Truth::parse("{\"truth\": 1}\n{\"step\": 0, \"fetch_start_ns\": 1}\n").unwrap_err();
        assert!(error.message.starts_with("2: expected a step as JSON, found `{\"step\""), "{error}");
    }

    #[test]
    fn what_a_log_writes_is_what_a_reader_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("truth.jsonl");
        let step = Step { fetch_start: 1, fetch_end: 2, step_end: 3, mono: None };
        let mut log = Log::create(&path, "test").unwrap();
        log.step(&step).unwrap();
        log.step(&step).unwrap();
        log.flush().unwrap();
        assert_eq!(Truth::read(&path).unwrap().steps, [step, step]);
    }
}
