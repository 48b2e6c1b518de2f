//! One device: its readings, and those of its MIG instances.

use std::collections::HashMap;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::MemoryInfo;

use super::gpm::{Averages, Counters};
use super::{AcceleratorRow, Reading, is_lost, raw, why};
use crate::accelerator::parse;
use feedline_traces::{Key, Text};

type Handle = nvml_wrapper::Device<'static>;

/// A device of the driver, and what is kept of it from one reading to the next.
pub(super) struct Device {
    pub(super) handle: Handle,
    pub(super) uuid: String,
    nvml: &'static Nvml,
    index: u32,
    name: Option<String>,
    /// Whether the device has performance counters, or why not.
    counted: Result<(), String>,
    counters: Counters,
    /// By GPU instance.
    instance_counters: HashMap<u32, Counters>,
    /// The MIG instances of the last reading: GPU instance and UUID.
    pub(super) instances: Vec<(u32, String)>,
    /// Whether MIG was on at the last reading.
    pub(super) mig: bool,
    /// Latest process sample seen, in the driver's microseconds.
    pub(super) seen: u64,
}

impl Device {
    /// The device with a number; `None` when the driver does not let it be opened.
    pub(super) fn open(nvml: &'static Nvml, index: u32) -> Option<Self> {
        let handle = nvml.device_by_index(index).ok()?;
        let address = || handle.pci_info().ok().map(|pci| pci.bus_id);
        let uuid = handle.uuid().ok().or_else(address).unwrap_or_else(|| format!("nvidia{index}"));
        let counted = match handle.gpm_support() {
            Ok(true) => Ok(()),
            Ok(false) | Err(NvmlError::NotSupported) => {
                Err("no performance counters (GPM): they begin with the Hopper generation".to_owned())
            }
            Err(error) => Err(why(&error, false)),
        };
        Some(Self {
            uuid,
            name: handle.name().ok(),
            nvml,
            index,
            counted,
            counters: Counters::default(),
            instance_counters: HashMap::new(),
            instances: Vec::new(),
            mig: false,
            seen: 0,
            handle,
        })
    }

    /// Name and what can be counted.
    pub(super) fn describe(&self) -> String {
        let name = self.name.as_deref().unwrap_or("unnamed device");
        match &self.counted {
            Ok(()) => format!("{name} (SM activity by GPM)"),
            Err(reason) => format!("{name} ({reason})"),
        }
    }

    /// The rows of the device and of its instances.
    pub(super) fn read(&mut self) -> Vec<Reading<AcceleratorRow>> {
        self.mig = self.handle.mig_mode().is_ok_and(|mode| mode.current == 1);
        let mut readings = vec![self.read_whole()];
        self.instances.clear();
        if self.mig {
            for slot in 0..self.handle.mig_device_count().unwrap_or(0) {
                // Slots without an instance answer `NotFound`.
                if let Ok(instance) = self.handle.mig_device_by_index(slot) {
                    readings.extend(self.read_instance(&instance));
                }
            }
        }
        let instances = &self.instances;
        self.instance_counters.retain(|id, _| instances.iter().any(|(instance, _)| instance == id));
        readings
    }

    fn read_whole(&mut self) -> Reading<AcceleratorRow> {
        let mut ask = Ask { mig: self.mig, lost: None, said: Vec::new() };
        let handle = &self.handle;
        let used = ask.take(&["accelerator.busy", "accelerator.memory_busy"], handle.utilization_rates());
        let memory = ask.memory(handle.memory_info());
        let megahertz = |mhz: Option<u32>| mhz.map(|mhz| f64::from(mhz) * 1e6);
        let nvlink = ask.take(&["accelerator.nvlink_read", "accelerator.nvlink_written"], raw::nvlink(handle));
        let power = ask.take(&["accelerator.power"], handle.power_usage());
        let temperature = ask.take(&["accelerator.temperature"], handle.temperature(TemperatureSensor::Gpu));
        let throttle = ask.take(&["accelerator.throttle"], handle.current_throttle_reasons());
        let mut row = AcceleratorRow {
            device: Key::from(self.uuid.as_str()),
            index: self.index.into(),
            name: self.name.as_deref().map_or(Text(None), Text::from),
            busy: ask.share("accelerator.busy", used.as_ref().map(|u| u.gpu)).into(),
            memory_busy: ask.share("accelerator.memory_busy", used.as_ref().map(|u| u.memory)).into(),
            memory_used: memory.as_ref().map(|m| m.used).into(),
            memory_total: memory.as_ref().map(|m| m.total).into(),
            power: power.map(|milliwatts| f64::from(milliwatts) / 1e3).into(),
            temperature: temperature.map(f64::from).into(),
            clock_sm: megahertz(ask.take(&["accelerator.clock_sm"], handle.clock_info(Clock::SM))).into(),
            clock_memory: megahertz(ask.take(&["accelerator.clock_memory"], handle.clock_info(Clock::Memory))).into(),
            throttle: throttle.map(|reasons| parse::throttle(reasons.bits())).into(),
            encoder: ask.engine("accelerator.encoder", handle.encoder_utilization().map(|u| u.utilization)).into(),
            decoder: ask.engine("accelerator.decoder", handle.decoder_utilization().map(|u| u.utilization)).into(),
            jpeg: ask.engine("accelerator.jpeg", raw::jpeg(handle)).into(),
            ofa: ask.engine("accelerator.ofa", raw::ofa(handle)).into(),
            nvlink_read: nvlink.map(|(read, _)| read).into(),
            nvlink_written: nvlink.map(|(_, written)| written).into(),
            ..AcceleratorRow::default()
        };
        let sampled = match &self.counted {
            Ok(()) => self.counters.advance(self.nvml, handle.gpm_sample()),
            Err(_) => Err(NvmlError::NotSupported),
        };
        let counted = match (sampled, &self.counted) {
            (Err(NvmlError::NotSupported), counted) => {
                let reason = counted.as_ref().err().cloned().unwrap_or_else(|| why(&NvmlError::NotSupported, self.mig));
                ask.say("accelerator.sm_active", Some(reason));
                ask.sampled(handle)
            }
            (sampled, _) => ask.counted(sampled),
        };
        counted.fill(&mut row);
        ask.finish(row, self.uuid.clone())
    }

    fn read_instance(&mut self, handle: &Handle) -> Option<Reading<AcceleratorRow>> {
        let uuid = handle.uuid().ok()?;
        let mut ask = Ask { mig: true, lost: None, said: Vec::new() };
        let memory = ask.memory(handle.memory_info());
        let mut row = AcceleratorRow {
            device: Key::from(uuid.as_str()),
            index: self.index.into(),
            name: handle.name().ok().or_else(|| self.name.clone()).into(),
            memory_used: memory.as_ref().map(|m| m.used).into(),
            memory_total: memory.as_ref().map(|m| m.total).into(),
            parent: Text::from(self.uuid.as_str()),
            ..AcceleratorRow::default()
        };
        let id = ask.take(&["accelerator.sm_active"], raw::gpu_instance(handle));
        if let Some(id) = id {
            self.instances.push((id, uuid.clone()));
        }
        if let (Some(id), Ok(())) = (id, &self.counted) {
            let counters = self.instance_counters.entry(id).or_default();
            let counted = ask.counted(counters.advance(self.nvml, self.handle.gpm_mig_sample(id)));
            counted.fill(&mut row);
        } else if let Err(reason) = &self.counted {
            ask.say("accelerator.sm_active", Some(reason.clone()));
        }
        for column in INSTANCE_SHARES {
            ask.say(column, Some("the driver gives no utilisation of a MIG instance".to_owned()));
        }
        for column in OF_THE_WHOLE {
            ask.say(column, Some("measured of the whole device: see its row".to_owned()));
        }
        Some(ask.finish(row, uuid))
    }
}

/// Columns that NVML does not give of an instance.
const INSTANCE_SHARES: [&str; 6] = [
    "accelerator.busy",
    "accelerator.memory_busy",
    "accelerator.encoder",
    "accelerator.decoder",
    "accelerator.jpeg",
    "accelerator.ofa",
];

/// Columns that are of the board, not of an instance.
const OF_THE_WHOLE: [&str; 7] = [
    "accelerator.power",
    "accelerator.temperature",
    "accelerator.clock_sm",
    "accelerator.clock_memory",
    "accelerator.throttle",
    "accelerator.nvlink_read",
    "accelerator.nvlink_written",
];

impl Averages {
    fn fill(self, row: &mut AcceleratorRow) {
        row.sm_active = self.sm_active.into();
        row.pcie_read = self.pcie_read.into();
        row.pcie_written = self.pcie_written.into();
    }
}

const IMPLAUSIBLE: &str = "the driver gave no plausible value";

/// Takes answers and notes what is to be said of those that did not come.
struct Ask {
    mig: bool,
    lost: Option<String>,
    said: Vec<(&'static str, Option<String>)>,
}

impl Ask {
    fn say(&mut self, column: &'static str, reason: Option<String>) {
        self.said.push((column, reason));
    }

    fn take<T>(&mut self, columns: &[&'static str], answer: Result<T, NvmlError>) -> Option<T> {
        let reason = answer.as_ref().err().map(|error| why(error, self.mig));
        if answer.as_ref().is_err_and(is_lost) {
            self.lost.clone_from(&reason);
        }
        for column in columns {
            self.say(column, reason.clone());
        }
        answer.ok()
    }

    fn memory(&mut self, answer: Result<MemoryInfo, NvmlError>) -> Option<MemoryInfo> {
        self.take(&["accelerator.memory_used", "accelerator.memory_total"], answer)
    }

    /// A share from a percentage, or the reason that it cannot be one.
    fn share(&mut self, column: &'static str, percent: Option<u32>) -> Option<f64> {
        let share = parse::share(f64::from(percent?));
        if share.is_none() {
            self.say(column, Some(IMPLAUSIBLE.to_owned()));
        }
        share
    }

    fn engine(&mut self, column: &'static str, percent: Result<u32, NvmlError>) -> Option<f64> {
        let percent = self.take(&[column], percent);
        self.share(column, percent)
    }

    /// PCIe traffic where there are no counters. The driver waits 20 ms for each direction.
    fn sampled(&mut self, handle: &Handle) -> Averages {
        let mut rate = |column, counter| {
            self.take(&[column], handle.pcie_throughput(counter)).map(|kilobytes| f64::from(kilobytes) * 1e3)
        };
        Averages {
            sm_active: None,
            pcie_read: rate("accelerator.pcie_read", PcieUtilCounter::Receive),
            pcie_written: rate("accelerator.pcie_written", PcieUtilCounter::Send),
        }
    }

    /// The counters' averages; the first reading has none, for they take two.
    fn counted(&mut self, answer: Result<Option<Averages>, NvmlError>) -> Averages {
        const COLUMNS: [&str; 3] = ["accelerator.sm_active", "accelerator.pcie_read", "accelerator.pcie_written"];
        let Some(answer) = self.take(&COLUMNS, answer) else { return Averages::default() };
        let averages = answer.unwrap_or_default();
        let missing = match answer {
            Some(_) => IMPLAUSIBLE,
            None => "an average since the last reading, and this is the first",
        };
        let values = [averages.sm_active, averages.pcie_read, averages.pcie_written];
        for (column, value) in COLUMNS.into_iter().zip(values) {
            if value.is_none() {
                self.say(column, Some(missing.to_owned()));
            }
        }
        averages
    }

    /// The row with its reasons. A device that is gone has one reason, for everything.
    fn finish(mut self, row: AcceleratorRow, entity: String) -> Reading<AcceleratorRow> {
        match self.lost {
            Some(reason) => Reading { row: Some(row), entity, said: vec![("accelerator", Some(reason))] },
            None => {
                self.said.push(("accelerator", None));
                // A column that two calls spoke of has the later's reason.
                let mut said: Vec<(&'static str, Option<String>)> = Vec::new();
                for (column, reason) in self.said {
                    match said.iter_mut().find(|(c, _)| *c == column) {
                        Some(slot) => slot.1 = reason,
                        None => said.push((column, reason)),
                    }
                }
                Reading { row: Some(row), entity, said }
            }
        }
    }
}
