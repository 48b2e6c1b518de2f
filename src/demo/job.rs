//! A small training job in one process, for machines without Python: loader threads read and
//! decode real JPEG files, the main thread trains and logs the truth about its own waiting.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use feedline_traces::{Clock, Error, Result, Ts};
use zune_jpeg::JpegDecoder;

use super::truth::{Log, Step};

/// What the job does in a step, once it has its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StepKind {
    /// Arithmetic on this machine's CPU.
    Cpu,
    /// Sleeping, where the arithmetic would be an accelerator's.
    Sleep,
}

/// The embedded training job. By default its loader is too slow for it.
#[derive(Debug, Clone, clap::Args)]
pub struct Job {
    /// Folder of JPEG files
    #[arg(long)]
    pub data: PathBuf,
    /// File to log each step's fetch and compute time to
    #[arg(long)]
    pub truth: PathBuf,
    /// Seconds to train once warm; 0 trains until the process is ended
    #[arg(long, default_value_t = 60.0)]
    pub seconds: f64,
    /// Loader threads; more of them feed the job better, as far as there are cores
    #[arg(long, default_value_t = 1, value_parser = many::<64>)]
    pub loaders: usize,
    /// Photographs in a batch
    #[arg(long, default_value_t = 16, value_parser = many::<1024>)]
    pub batch: usize,
    /// Batches that may wait for the trainer
    #[arg(long, default_value_t = 2, value_parser = many::<64>)]
    pub queue: usize,
    /// Milliseconds of work in a step
    #[arg(long, default_value_t = 20.0)]
    pub step_ms: f64,
    /// What a step does
    #[arg(long, value_enum, default_value_t = StepKind::Cpu)]
    pub step_kind: StepKind,
    /// End when the process that started it ends, however that ends
    #[arg(long)]
    pub ends_with_parent: bool,
}

/// A whole number from 1 to `MOST`: what is asked for must fit the memory of a small machine.
fn many<const MOST: usize>(typed: &str) -> std::result::Result<usize, String> {
    let found = typed.parse().ok().filter(|number| (1..=MOST).contains(number));
    found.ok_or_else(|| format!("expected a whole number from 1 to {MOST}"))
}

/// Steps before the job calls itself warm.
const WARM_UP: u64 = 5;
/// Width and height that photographs are brought to, in pixels.
const SIDE: usize = 224;

/// Trains, and says `ready PID` on `out` when warm.
///
/// # Errors
///
/// Where the folder holds no JPEG file, a photograph does not decode, or the truth cannot be
/// written.
pub fn run(job: &Job, clock: &dyn Clock, out: &mut dyn Write) -> Result<()> {
    if job.ends_with_parent {
        // Asked for by the demo, so that one that is killed leaves no job behind.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    }
    let photos = photos(&job.data)?;
    let ended = ended()?;
    let mut log = Log::create(&job.truth, "embedded")?;
    let batches = load(job, photos)?;
    let mut model = Model::default();
    let (mut steps, mut deadline) = (0, None::<Ts>);
    while !ended.load(Ordering::Relaxed) && deadline.is_none_or(|end| clock.now() < end) {
        let fetch_start = clock.now();
        let batch = batches.recv().map_err(|_| Error::new("every loader thread has ended"))??;
        let fetch_end = clock.now();
        model.learn(&batch, job, clock);
        let step = Step { fetch_start: fetch_start.0, fetch_end: fetch_end.0, step_end: clock.now().0, mono: None };
        log.step(&step)?;
        steps += 1;
        if steps == WARM_UP {
            writeln!(out, "ready {}", std::process::id())
                .and_then(|()| out.flush())
                .map_err(|e| Error::io("standard output", &e))?;
            let seconds = Duration::try_from_secs_f64(job.seconds).unwrap_or_default();
            deadline = (!seconds.is_zero()).then(|| clock.now().plus(seconds));
        }
    }
    log.flush()
}

/// The photographs of a folder, in order.
fn photos(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(|e| Error::io(dir.display(), &e))?;
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|p| p.extension().is_some_and(|e| e == "jpg")).collect();
    paths.sort();
    if paths.is_empty() {
        return Err(Error::new(format!("{}: expected JPEG files, found none", dir.display())));
    }
    Ok(paths)
}

/// True once the process is told to end (SIGTERM, or ctrl-C), so that it can log its last steps.
fn ended() -> Result<Arc<AtomicBool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let ended = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ended);
    let place = |e: std::io::Error| Error::io("signal thread", &e);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(place)?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(async {
                if let (Ok(mut end), Ok(mut stop)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
                {
                    tokio::select! { _ = end.recv() => {}, _ = stop.recv() => {} }
                    told.store(true, Ordering::Relaxed);
                }
            });
        })
        .map_err(place)?;
    Ok(ended)
}

/// A batch: its photographs as normalised RGB, `SIDE` × `SIDE` × 3 each.
type Batch = Vec<f32>;

/// Starts the loader threads; their batches, or why one could not be made, come in here.
fn load(job: &Job, photos: Vec<PathBuf>) -> Result<Receiver<Result<Batch>>> {
    let (send, receive) = sync_channel(job.queue.max(1));
    let (photos, next) = (Arc::new(photos), Arc::new(AtomicUsize::new(0)));
    for number in 0..job.loaders.max(1) {
        let (photos, next, send, batch) = (Arc::clone(&photos), Arc::clone(&next), send.clone(), job.batch.max(1));
        std::thread::Builder::new()
            .name(format!("loader-{number}"))
            .spawn(move || serve(&photos, &next, batch, &send))
            .map_err(|e| Error::io("loader thread", &e))?;
    }
    Ok(receive)
}

/// One loader thread: batch after batch, until nobody takes them or one fails.
fn serve(photos: &[PathBuf], next: &AtomicUsize, batch: usize, send: &SyncSender<Result<Batch>>) {
    loop {
        let first = next.fetch_add(batch, Ordering::Relaxed);
        let made: Result<Vec<Batch>> = (first..first + batch).map(|i| sample(&photos[i % photos.len()])).collect();
        let failed = made.is_err();
        if send.send(made.map(|samples| samples.concat())).is_err() || failed {
            return;
        }
    }
}

/// One photograph, read, decoded, brought to size and normalised.
fn sample(path: &Path) -> Result<Vec<f32>> {
    let bytes = fs::read(path).map_err(|e| Error::io(path.display(), &e))?;
    let wrong = |what: String| Error::new(format!("{}: {what}", path.display()));
    let mut decoder = JpegDecoder::new(Cursor::new(bytes));
    let pixels = decoder.decode().map_err(|e| wrong(format!("expected a JPEG photograph, {e}")))?;
    let (width, height) = decoder.dimensions().ok_or_else(|| wrong("expected a size, found none".into()))?;
    if width == 0 || height == 0 || pixels.len() != width * height * 3 {
        return Err(wrong(format!("expected RGB of {width}x{height}, found {} bytes", pixels.len())));
    }
    let mut sample = Vec::with_capacity(SIDE * SIDE * 3);
    for y in 0..SIDE {
        let row = y * height / SIDE * width;
        for x in 0..SIDE {
            let at = (row + x * width / SIDE) * 3;
            sample.extend(pixels[at..at + 3].iter().map(|value| f32::from(*value) / 127.5 - 1.0));
        }
    }
    Ok(sample)
}

/// The model: one number, kept so that the arithmetic of a step is not optimised away.
#[derive(Debug, Default)]
struct Model {
    state: f32,
}

impl Model {
    /// One step of `job.step_ms` on a batch.
    #[expect(clippy::cast_precision_loss, reason = "a mean of 4096 values needs no more than f32")]
    fn learn(&mut self, batch: &Batch, job: &Job, clock: &dyn Clock) {
        let span = Duration::try_from_secs_f64(job.step_ms / 1e3).unwrap_or_default();
        if job.step_kind == StepKind::Sleep {
            std::thread::sleep(span);
            return;
        }
        let end = clock.now().plus(span);
        for chunk in batch.chunks(4096).cycle() {
            let mean = chunk.iter().sum::<f32>() / chunk.len() as f32;
            self.state = std::hint::black_box(0.99 * self.state + mean);
            if clock.now() >= end {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::photos::{Photos, make};
    use super::super::truth::Truth;
    use super::*;
    use feedline_traces::SystemClock;

    fn job(dir: &Path, step_kind: StepKind) -> Job {
        let data = dir.join("data");
        make(&data, &Photos { count: 4, width: 64, height: 48, ..Photos::default() }, &|_| {}).unwrap();
        let truth = dir.join("truth.jsonl");
        Job {
            data,
            truth,
            seconds: 0.2,
            loaders: 1,
            batch: 2,
            queue: 2,
            step_ms: 5.0,
            step_kind,
            ends_with_parent: false,
        }
    }

    #[test]
    fn the_job_says_ready_and_logs_every_step_it_made() {
        let dir = tempfile::tempdir().unwrap();
        let job = job(dir.path(), StepKind::Cpu);
        let mut said = Vec::new();
        run(&job, &SystemClock::anchored_now(), &mut said).unwrap();
        assert_eq!(String::from_utf8(said).unwrap(), format!("ready {}\n", std::process::id()));
        let steps = Truth::read(&job.truth).unwrap().steps;
        assert!(steps.len() > 5, "{} steps", steps.len());
        let span = steps.last().unwrap().step_end - steps.first().unwrap().fetch_start;
        assert!(span > 200_000_000, "{span} ns");
        assert!(steps.iter().all(|s| s.step_end - s.fetch_end >= 5_000_000));
    }

    #[test]
    fn a_folder_without_photos_and_a_file_that_is_none_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let job = job(dir.path(), StepKind::Sleep);
        let clock = SystemClock::anchored_now();
        fs::write(job.data.join("photo-00000.jpg"), b"not a photograph").unwrap();
        let error = run(&job, &clock, &mut Vec::new()).unwrap_err();
        assert!(error.message.contains("photo-00000.jpg: expected a JPEG photograph"), "{error}");
        let empty = Job { data: dir.path().into(), ..job };
        let error = run(&empty, &clock, &mut Vec::new()).unwrap_err();
        assert!(error.message.ends_with("expected JPEG files, found none"), "{error}");
    }
}
