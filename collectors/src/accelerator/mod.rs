//! What the accelerators do: NVIDIA through its management library, found at run time, and AMD
//! through the files of its kernel driver.
//!
//! "Busy" only says that some kernel ran; where the device counts it, `sm_active` says how much
//! of the device that kernel filled.

mod amd;
mod nvidia;
mod parse;
#[cfg(test)]
mod tests;

use feedline_traces::unit::{Bytes, Celsius, Hertz, Ratio, Watts};
use feedline_traces::{Collector, Counter, Error, Gauge, Id, Key, Result, Row as _, Rows, Table, Text, table};

use crate::Context;
use crate::absent::{AbsentRow, Reasons};
use nvidia::Nvidia;

table! {
    /// What each accelerator does, one row per device per tick. A device split into MIG instances
    /// has a row for itself and one for each instance.
    pub accelerator: AcceleratorRow {
        /// UUID of the device or MIG instance; the PCI address where there is none.
        device: Key,
        /// Number of the device, as the driver counts.
        index: Id,
        /// Product name.
        name: Text,
        /// Share of the driver's last sample period in which any kernel ran.
        busy: Gauge<Ratio>,
        /// Share of the multiprocessors with work assigned, averaged since the last reading.
        sm_active: Gauge<Ratio>,
        /// Share of the driver's last sample period in which device memory was read or written.
        memory_busy: Gauge<Ratio>,
        /// Bytes a second that the device received over PCIe: the average since the last reading,
        /// or a sample of 20 ms on devices without performance counters (before Hopper).
        pcie_read: Gauge<Bytes>,
        /// Bytes a second that the device sent over PCIe, measured like `pcie_read`.
        pcie_written: Gauge<Bytes>,
        /// Device memory in use.
        memory_used: Gauge<Bytes>,
        /// Device memory in all.
        memory_total: Gauge<Bytes>,
        /// Power drawn; an average over a second on recent devices.
        power: Gauge<Watts>,
        /// Temperature of the chip.
        temperature: Gauge<Celsius>,
        /// Clock of the multiprocessors.
        clock_sm: Gauge<Hertz>,
        /// Clock of the device memory.
        clock_memory: Gauge<Hertz>,
        /// What holds the clocks down, such as `power cap`; `none` when nothing does.
        throttle: Text,
        /// Share of the video encoders' time in use.
        encoder: Gauge<Ratio>,
        /// Share of the video decoders' time in use.
        decoder: Gauge<Ratio>,
        /// Share of the JPEG decoders' time in use.
        jpeg: Gauge<Ratio>,
        /// Share of the optical-flow engine's time in use.
        ofa: Gauge<Ratio>,
        /// Payload received over all NVLinks since the driver loaded.
        nvlink_read: Counter<Bytes>,
        /// Payload sent over all NVLinks since the driver loaded.
        nvlink_written: Counter<Bytes>,
        /// For a MIG instance, the UUID of the device it is a part of.
        parent: Text,
    }
}

table! {
    /// What each process of the job has on each accelerator, one row per device and process per tick.
    pub accelerator_process: AcceleratorProcessRow {
        /// UUID of the device, or of the MIG instance.
        device: Key,
        /// The process.
        process: Key,
        /// Device memory the process holds.
        memory: Gauge<Bytes>,
        /// Share of time that its kernels ran, since the last reading.
        busy: Gauge<Ratio>,
        /// Share of time that it read or wrote device memory, since the last reading.
        memory_busy: Gauge<Ratio>,
        /// Share of the video encoders' time, since the last reading.
        encoder: Gauge<Ratio>,
        /// Share of the video decoders' time, since the last reading.
        decoder: Gauge<Ratio>,
    }
}

/// Readings between two searches for a driver that was not there.
const SEARCH_EVERY: u32 = 30;

/// The accelerators of the machine.
pub struct Accelerators {
    context: Context,
    reasons: Reasons,
    nvidia: Option<Nvidia>,
    /// Why there is no NVIDIA driver, as of the last search.
    without: String,
    until_search: u32,
}

impl Accelerators {
    /// Finds nothing yet: drivers are looked for at the first reading and, where there are none,
    /// now and then again.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            reasons: Reasons::default(),
            nvidia: None,
            without: String::new(),
            until_search: 0,
        }
    }

    fn search(&mut self) {
        if self.nvidia.is_some() {
            return;
        }
        if self.until_search > 0 {
            self.until_search -= 1;
            return;
        }
        self.until_search = SEARCH_EVERY;
        match Nvidia::load(&self.context) {
            Ok(nvidia) => self.nvidia = Some(nvidia),
            Err(reason) => self.without = reason,
        }
    }
}

impl Collector for Accelerators {
    fn name(&self) -> &'static str {
        "accelerator"
    }

    fn tables(&self) -> Vec<Table> {
        vec![AcceleratorRow::table(), AcceleratorProcessRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        self.search();
        let mut readings = amd::read(&self.context.host);
        let mut processes = Vec::new();
        let mut without = Some(self.without.as_str());
        if let Some(nvidia) = &mut self.nvidia {
            readings.extend(nvidia.read());
            processes = nvidia.processes(&self.context.host, &self.context.target.processes());
            without = nvidia.is_empty().then_some("the NVIDIA driver shows no device");
        }
        self.reasons.say(out, "accelerator", "", without.filter(|_| readings.is_empty()));
        for reading in readings {
            reading.write(out, &mut self.reasons);
        }
        for reading in processes {
            reading.write(out, &mut self.reasons);
        }
        Ok(())
    }
}

/// What accelerators can be read here, for a list of what works: one line such as `NVIDIA driver
/// 590.48.01: NVIDIA H100 80GB HBM3 (SM activity by GPM)`.
///
/// # Errors
/// When no accelerator can be read; the message says why, the hint how to change that.
pub fn probe(context: &Context) -> Result<String> {
    let nvidia = Nvidia::load(context);
    let mut lines: Vec<String> =
        nvidia.as_ref().ok().filter(|n| !n.is_empty()).map(Nvidia::describe).into_iter().collect();
    let amd = amd::read(&context.host);
    if !amd.is_empty() {
        let names: Vec<_> = amd.iter().filter_map(|r| r.row.as_ref()?.name.0.as_deref()).collect();
        lines.push(format!("AMD driver: {}", names.join(", ")));
    }
    match nvidia {
        _ if !lines.is_empty() => Ok(lines.join("; ")),
        Ok(_) => Err(Error::new("the NVIDIA driver shows no device").hint("in a container, run with `--gpus all`")),
        Err(reason) => Err(Error::new(reason).hint(
            "device time is then inferred from the trainer alone; `nvml = \"PATH\"` in the settings names the library",
        )),
    }
}

/// A row, and what is to be said of its columns.
struct Reading<R> {
    /// `None` where only a reason is known.
    row: Option<R>,
    /// The device or process that the reasons speak of.
    entity: String,
    /// Column path, and why it is null; `None` says that it is not.
    said: Vec<(&'static str, Option<String>)>,
}

impl<R: feedline_traces::Row> Reading<R> {
    fn write(self, out: &mut Rows<'_>, reasons: &mut Reasons) {
        for (what, reason) in &self.said {
            reasons.say(out, what, &self.entity, reason.as_deref());
        }
        if let Some(row) = self.row {
            out.push(row);
        }
    }
}
