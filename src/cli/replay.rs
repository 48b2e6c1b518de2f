//! `feedline replay`: the dashboard over a recorded run, or over one that is being recorded.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use feedline_dashboards::{self as screen, Event, Message, Mode, Screen, State, channel, picture, play};
use feedline_traces::run::Run;
use feedline_traces::{Clock, Error, Result, Sink, Source, SystemClock, Tick, Ts, drive};

use super::{Outcome, output, runtime};
use crate::chain;

/// Arguments of `feedline replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: space pauses, arrows seek, + and - change the speed, ? shows them all, q leaves.")]
pub(super) struct Args {
    /// The run folder; a folder of runs means the newest in it
    #[arg(default_value = "runs")]
    run: PathBuf,
    /// Seconds of the run a second
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Follow a run that is being written
    #[arg(long)]
    follow: bool,
    /// Write the last screen as a picture (SVG) instead of showing it
    #[arg(long, value_name = "FILE", conflicts_with = "follow")]
    svg: Option<PathBuf>,
    /// Size of the picture in columns and rows
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "120x36", value_parser = size)]
    size: (u16, u16),
}

fn speed(typed: &str) -> std::result::Result<f64, String> {
    let found = typed.parse().ok().filter(|speed| (0.01..=10_000.0).contains(speed));
    found.ok_or_else(|| "expected a number from 0.01 to 10000".to_owned())
}

fn size(typed: &str) -> std::result::Result<(u16, u16), String> {
    let parse = |(columns, rows): (&str, &str)| Some((columns.parse().ok()?, rows.parse().ok()?));
    let found = typed.split_once('x').and_then(parse);
    found
        .filter(|(c, r)| (20..=400).contains(c) && (5..=200).contains(r))
        .ok_or_else(|| "expected 120x36 or the like".to_owned())
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let run = Run::open(chain::find_run(&self.run)?)?.leaving_out_damage();
        let runtime = runtime()?;
        if let Some(file) = &self.svg {
            let mut source = chain::replay(&run)?;
            let mut state = State::new(source.schema(), Mode::Replay, chain::title(&run));
            while let Some(tick) = runtime.block_on(source.next())? {
                state.update(Event::Message(Message::Tick(Arc::new(tick))));
            }
            run.losses().iter().for_each(|loss| output::note(loss));
            let picture = picture(&mut state, self.size.0, self.size.1)?;
            return Ok(std::fs::write(file, picture).map_err(|cause| Error::io(file.display(), &cause))?);
        }
        if json || self.follow {
            let mut source = if self.follow { chain::follow(&run)? } else { chain::replay(&run)? };
            if json {
                runtime.block_on(drive(source.as_mut(), &mut [Box::new(output::Lines)]))?;
                run.losses().iter().for_each(|loss| output::note(loss));
                return Ok(());
            }
            let schema = Arc::clone(source.schema());
            let (feed, messages) = channel();
            let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(feed)];
            runtime.spawn(async move { drive(source.as_mut(), &mut sinks).await });
            let screen = Screen { mode: Mode::Live, title: chain::title(&run), colour: output::colour() };
            let clock = SystemClock::anchored_now();
            return Ok(screen::run(screen, &schema, &messages, &mpsc::channel().0, &clock)?);
        }
        let mut tape = Tape::of(run)?;
        let schema = Arc::clone(tape.source.schema());
        let title = chain::title(&tape.run);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::anchored_now());
        let (feed, messages) = channel();
        let (commands, asked) = mpsc::channel();
        let speed = self.speed;
        let player = {
            let clock = Arc::clone(&clock);
            let play = move || {
                let played = play(&mut tape, clock.as_ref(), &feed, &asked, speed);
                (played, tape.run.losses())
            };
            std::thread::Builder::new().name("player".into()).spawn(play).map_err(|e| Error::io("player thread", &e))?
        };
        let screen = Screen { mode: Mode::Replay, title, colour: output::colour() };
        screen::run(screen, &schema, &messages, &commands, clock.as_ref())?;
        // The screen has asked the player to leave; what it last said matters more than its end.
        drop(messages);
        let (played, losses) = player.join().unwrap_or((Ok(()), Vec::new()));
        losses.iter().for_each(|loss| output::note(loss));
        Ok(played?)
    }
}

/// A run that can be read from any point. Seeking starts the chain anew there, so that what is
/// derived is derived from what is shown.
struct Tape {
    run: Run,
    span: (Ts, Ts),
    source: Box<dyn Source>,
    ticks: tokio::runtime::Runtime,
}

impl Tape {
    fn of(run: Run) -> Result<Self> {
        let span = run
            .extent()?
            .1
            .ok_or_else(|| Error::new("the run has no ticks").hint("was it recorded for long enough?"))?;
        let ticks =
            tokio::runtime::Builder::new_current_thread().build().map_err(|e| Error::io("tokio runtime", &e))?;
        let source = chain::replay(&run)?;
        Ok(Self { run, span, source, ticks })
    }
}

impl screen::Tape for Tape {
    fn span(&self) -> (Ts, Ts) {
        self.span
    }

    fn next(&mut self) -> Result<Option<Tick>> {
        self.ticks.block_on(self.source.next())
    }

    fn seek(&mut self, to: Ts) -> Result<()> {
        self.source = chain::replay_from(&self.run, to)?;
        Ok(())
    }
}
