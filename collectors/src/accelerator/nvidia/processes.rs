//! Which processes of the job hold a context on a device, and what they use of it.

use std::collections::HashMap;

use feedline_traces::{Key, Symbol};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};

use super::device::Device;
use super::{AcceleratorProcessRow, Reading, is_lost, why};
use crate::accelerator::parse;
use crate::target::Process;
use crate::{Host, Role};

/// Whose process ids Feedline sees. The driver speaks of processes by their id on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    /// The host's: the driver's ids are ours.
    Host,
    /// A container's: an id is only ours if that process also has a device open.
    Container,
}

impl Namespace {
    /// The namespace that Feedline runs in; the first one's number is fixed by the kernel.
    pub(super) fn of(host: &Host) -> Self {
        const FIRST: &str = "pid:[4026531836]";
        match host.link("proc/self/ns/pid") {
            Ok(link) if link.as_os_str() != FIRST => Self::Container,
            _ => Self::Host,
        }
    }
}

/// A row for each process of the job on the device.
pub(super) fn read(
    device: &mut Device,
    namespace: Namespace,
    host: &Host,
    job: &[Process],
) -> Vec<Reading<AcceleratorProcessRow>> {
    let running = match device.handle.running_compute_processes() {
        Ok(running) => running,
        Err(error) if is_lost(&error) => return Vec::new(),
        Err(error) => return nothing(job, &why(&error, device.mig)),
    };
    let samples = latest(device);
    let mut rows = Vec::new();
    let mut foreign = 0;
    for process in &running {
        let ours = job.iter().find(|p| p.pid == process.pid);
        match ours.filter(|p| namespace == Namespace::Host || holds_device(host, p.pid)) {
            Some(ours) => rows.push(row(device, process, ours, &samples)),
            None => foreign += 1,
        }
    }
    if rows.is_empty() && foreign > 0 && namespace == Namespace::Container {
        return nothing(
            job,
            "the driver names processes by their id on the host, which this container cannot see: run Feedline in the \
             host's pid namespace (`--pid=host`, `hostPID: true`)",
        );
    }
    rows
}

/// No row, and one reason for each process of the job that could have had one: the trainers.
fn nothing(job: &[Process], reason: &str) -> Vec<Reading<AcceleratorProcessRow>> {
    let trainers = job.iter().filter(|process| process.role == Role::Trainer);
    let said = || vec![("accelerator_process", Some(reason.to_owned()))];
    trainers.map(|process| Reading { row: None, entity: process.key.to_string(), said: said() }).collect()
}

/// Whether a process has an NVIDIA device open.
fn holds_device(host: &Host, pid: u32) -> bool {
    let folder = format!("proc/{pid}/fd");
    let links = host.names(&folder).into_iter().filter_map(|fd| host.link(format!("{folder}/{fd}")).ok());
    links.into_iter().any(|link| link.to_str().is_some_and(|path| path.starts_with("/dev/nvidia")))
}

/// The columns of a process that samples fill.
const SHARES: [&str; 4] = [
    "accelerator_process.busy",
    "accelerator_process.memory_busy",
    "accelerator_process.encoder",
    "accelerator_process.decoder",
];

/// Use by pid since the last reading, in percent: the mean of the samples.
type Use = HashMap<u32, [f64; 4]>;

fn latest(device: &mut Device) -> Result<Use, String> {
    let samples = match device.handle.process_utilization_stats(device.seen) {
        Ok(samples) => samples,
        // The driver's way to say that no process ran since.
        Err(NvmlError::NotFound) => Vec::new(),
        Err(error) => return Err(why(&error, device.mig)),
    };
    let mut sums: HashMap<u32, ([f64; 4], f64)> = HashMap::new();
    for sample in samples.iter().filter(|s| s.timestamp > device.seen) {
        let (sum, count) = sums.entry(sample.pid).or_default();
        for (sum, percent) in sum.iter_mut().zip(percents(sample)) {
            *sum += f64::from(percent);
        }
        *count += 1.0;
    }
    device.seen = samples.iter().map(|s| s.timestamp).fold(device.seen, u64::max);
    Ok(sums.into_iter().map(|(pid, (sum, count))| (pid, sum.map(|s| s / count))).collect())
}

fn percents(sample: &ProcessUtilizationSample) -> [u32; 4] {
    [sample.sm_util, sample.mem_util, sample.enc_util, sample.dec_util]
}

fn row(
    device: &Device,
    process: &ProcessInfo,
    ours: &Process,
    samples: &Result<Use, String>,
) -> Reading<AcceleratorProcessRow> {
    let instance = process.gpu_instance_id.and_then(|id| device.instances.iter().find(|(i, _)| *i == id));
    let memory = match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    let percent = samples.as_ref().ok().and_then(|samples| samples.get(&ours.pid));
    let share = |i: usize| percent.and_then(|percent| parse::share(percent[i]));
    let no_use = match (samples, percent) {
        (Err(reason), _) => Some(reason.clone()),
        (Ok(_), None) => Some("the driver has no sample of the process since the last reading".to_owned()),
        (Ok(_), Some(_)) => None,
    };
    let mut said = vec![(
        "accelerator_process.memory",
        memory.is_none().then(|| "the driver does not say how much memory a process holds".to_owned()),
    )];
    said.extend(SHARES.map(|column| (column, no_use.clone())));
    said.push(("accelerator_process", None));
    let row = AcceleratorProcessRow {
        device: Key::from(instance.map_or(device.uuid.as_str(), |(_, uuid)| uuid.as_str())),
        process: Key(Symbol::clone(&ours.key)),
        memory: memory.into(),
        busy: share(0).into(),
        memory_busy: share(1).into(),
        encoder: share(2).into(),
        decoder: share(3).into(),
    };
    Reading { row: Some(row), entity: ours.key.to_string(), said }
}
