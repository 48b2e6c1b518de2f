//! What was typed, and what it means: [`Options`] are checked into a [`Config`].

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use feedline_collectors::Settings;
use feedline_traces::{Error, Result};

/// Rates and limits, as typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Collection")]
pub struct Options {
    /// Time from one tick to the next
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = humantime::parse_duration)]
    pub tick: Duration,
    /// Most samples a second of the trainer's thread state
    #[arg(long, value_name = "HZ", default_value_t = Settings::default().thread_hz)]
    pub thread_hz: u32,
    /// Most samples a second of each worker's thread state
    #[arg(long, value_name = "HZ", default_value_t = Settings::default().worker_hz)]
    pub worker_hz: u32,
    /// Python stacks a second of the trainer; 0 takes none
    #[arg(long, value_name = "HZ", default_value_t = Settings::default().stack_hz)]
    pub stack_hz: u32,
    /// Python stacks a second of each worker; 0 takes none
    #[arg(long, value_name = "HZ", default_value_t = Settings::default().worker_stack_hz)]
    pub worker_stack_hz: u32,
    /// Share of one core that Feedline may use; samplers slow down to keep to it
    #[arg(long, value_name = "SHARE", default_value_t = Settings::default().budget)]
    pub budget: f64,
    /// Record what can be had without the right to read the job
    #[arg(long)]
    pub partial: bool,
    /// Count block latency, time off the CPU, file reads and device calls in the kernel; as root
    #[arg(long)]
    pub kernel: bool,
    /// The NVIDIA management library, where it is not in the usual places
    #[arg(long, value_name = "FILE")]
    pub nvml: Option<PathBuf>,
    /// Tell a trainer that begins to wait for data to write a Kineto trace of 2 s below /tmp
    #[arg(long)]
    pub kineto_on_stall: bool,
}

/// Rates and limits that cannot be wrong.
#[derive(Debug, Clone)]
pub struct Config {
    /// Time from one tick to the next, from 100 ms to 1 min.
    pub tick: Duration,
    /// Whether a job that may not be read is recorded all the same.
    pub partial: bool,
    /// What the collectors take.
    pub settings: Settings,
}

impl Default for Config {
    /// What the options are when nothing is typed.
    fn default() -> Self {
        Self { tick: Duration::from_secs(1), partial: false, settings: Settings::default() }
    }
}

impl TryFrom<&Options> for Config {
    type Error = Error;

    fn try_from(typed: &Options) -> Result<Self> {
        let tick = typed.tick;
        if tick < Duration::from_millis(100) || tick > Duration::from_secs(60) {
            let shown = humantime::format_duration(tick);
            return Err(Error::new(format!("--tick: `{shown}` is not from 100ms to 1m"))
                .hint("the default, 1s, suits most jobs"));
        }
        if !(typed.budget > 0.0 && typed.budget <= 1.0) {
            return Err(Error::new(format!("--budget: `{}` is not a share above 0 and up to 1", typed.budget))
                .hint("0.02 is 2 % of one core"));
        }
        for (name, hz, most) in [
            ("--thread-hz", typed.thread_hz, 1000),
            ("--worker-hz", typed.worker_hz, 1000),
            ("--stack-hz", typed.stack_hz, 100),
            ("--worker-stack-hz", typed.worker_stack_hz, 100),
        ] {
            if hz > most {
                return Err(Error::new(format!("{name}: `{hz}` is more than {most} a second")));
            }
        }
        if typed.thread_hz == 0 {
            return Err(Error::new("--thread-hz: `0` would leave nothing to judge by").hint("the least is 1"));
        }
        let settings = Settings {
            thread_hz: typed.thread_hz,
            worker_hz: typed.worker_hz,
            stack_hz: typed.stack_hz,
            worker_stack_hz: typed.worker_stack_hz,
            budget: typed.budget,
            nvml: typed.nvml.clone(),
            kineto: typed.kineto_on_stall,
            kernel: typed.kernel,
            ..Settings::default()
        };
        Ok(Self { tick, partial: typed.partial, settings })
    }
}
