//! Whole machines: recorded readings through the real loading path, and a captured tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use feedline_traces::{Collector as _, Rows, Schema, SimClock, Ts, Values};

use super::*;
use crate::{Host, Process, Role};

const H100_LOAD: &str = include_str!("testdata/h100_load.readings");
const H100_IDLE: &str = include_str!("testdata/h100_idle.readings");
const H100_MIG: &str = include_str!("testdata/h100_mig_load.readings");
const RTX_4080: &str = include_str!("testdata/rtx4080_load.readings");
const GPU: &str = "GPU-00000000-0000-0000-0000-000000000000";

/// A machine whose library plays readings, and what was said of it so far.
struct Machine {
    folder: tempfile::TempDir,
    context: Context,
    collector: Accelerators,
    absent: Vec<(String, String, Option<String>)>,
}

impl Machine {
    fn new(readings: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libnvidia-ml.so.1");
        let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/accelerator/testdata/stub_nvml.c");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(stub).args(flags).status();
        assert!(built.unwrap().success());
        fs::write(folder.path().join("readings"), readings).unwrap();
        Self::at(folder, Some(library))
    }

    fn at(folder: tempfile::TempDir, nvml: Option<PathBuf>) -> Self {
        let mut context = Context::new(Host::at(folder.path()), Arc::new(SimClock::default()));
        context.settings.nvml = nvml;
        Self { collector: Accelerators::new(&context), folder, context, absent: Vec::new() }
    }

    fn job(&self, pids: &[u32]) {
        self.context.target.replace(pids.iter().map(|pid| trainer(*pid)).collect());
    }

    fn change(&self, from: &str, to: &str) {
        let path = self.folder.path().join("readings");
        let readings = fs::read_to_string(&path).unwrap();
        assert!(readings.contains(from));
        fs::write(path, readings.replace(from, to)).unwrap();
    }

    /// Reads once: the rows of both tables. What is absent is remembered.
    fn read(&mut self) -> (Gathered, Gathered) {
        let schema = Schema::new(self.collector.tables()).unwrap();
        let mut rows = Rows::new(&schema, Ts(0));
        self.collector.collect(&mut rows).unwrap();
        assert!(rows.undeclared().is_empty());
        let batches = rows.finish();
        let table = |name: &str| {
            let id = schema.find_table(name).unwrap();
            let columns = batches.iter().find(|b| b.table == id).map(|b| b.columns.clone()).unwrap_or_default();
            Gathered { names: schema.table(id).columns.iter().map(|c| c.name.to_string()).collect(), columns }
        };
        let absent = table("absent");
        for row in 0..absent.len() {
            let text = |column| absent.text(row, column);
            self.absent.retain(|(what, entity, _)| {
                (Some(what.clone()), Some(entity.clone())) != (text("what"), text("entity"))
            });
            self.absent.push((text("what").unwrap(), text("entity").unwrap(), text("reason")));
        }
        (table("accelerator"), table("accelerator_process"))
    }

    fn reason(&self, what: &str, entity: &str) -> Option<&str> {
        self.absent.iter().find(|(w, e, _)| w == what && e == entity)?.2.as_deref()
    }
}

/// The rows of one table by column name.
struct Gathered {
    names: Vec<String>,
    columns: Vec<Values>,
}

impl Gathered {
    fn len(&self) -> usize {
        self.columns.first().map_or(0, Values::len)
    }

    fn column(&self, name: &str) -> &Values {
        &self.columns[self.names.iter().position(|n| n == name).unwrap()]
    }

    fn text(&self, row: usize, name: &str) -> Option<String> {
        self.column(name).text(row).map(ToString::to_string)
    }

    fn numbers(&self, row: usize, names: &[&str]) -> Vec<Option<f64>> {
        names.iter().map(|name| self.column(name).number(row)).collect()
    }
}

fn trainer(pid: u32) -> Process {
    Process { pid, key: crate::key(pid, 7), role: Role::Trainer, ..Process::default() }
}

#[test]
fn a_device_under_load_is_read_in_full() {
    let mut machine = Machine::new(H100_LOAD, &[]);
    machine.job(&[11345, 4]);
    let (first, _) = machine.read();
    assert_eq!(first.numbers(0, &["busy", "sm_active", "pcie_read"]), [Some(1.0), None, None]);
    let reason = machine.reason("accelerator.sm_active", GPU).unwrap();
    assert_eq!(reason, "an average since the last reading, and this is the first");

    machine.change("0.sample 11345 1784016773000000 99", "0.sample 11345 1784016774000000 98");
    let (rows, processes) = machine.read();
    assert_eq!(rows.text(0, "device").as_deref(), Some(GPU));
    assert_eq!(rows.text(0, "name").as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert_eq!(rows.text(0, "throttle").as_deref(), Some("none"));
    let shares = ["busy", "sm_active", "memory_busy", "encoder", "decoder", "jpeg", "ofa"];
    assert_eq!(rows.numbers(0, &shares), [1.0, 0.992, 0.11, 0.0, 0.0, 0.0, 0.0].map(Some));
    let rest = ["memory_used", "memory_total", "power", "temperature", "clock_sm", "clock_memory"];
    assert_eq!(rows.numbers(0, &rest), [20_780_679_168.0, 85_520_809_984.0, 631.95, 59.0, 1.98e9, 2.619e9].map(Some));
    // Counters come in MiB/s and links in KiB, summed over all links.
    let traffic = ["pcie_read", "pcie_written", "nvlink_read", "nvlink_written"];
    assert_eq!(rows.numbers(0, &traffic), [6_553_600.0, 3_670_016.0, 2_097_152.0, 1_048_576.0].map(Some));
    assert_eq!(machine.reason("accelerator.sm_active", GPU), None);

    assert_eq!(processes.len(), 1, "only processes of the job");
    assert_eq!(processes.text(0, "process").as_deref(), Some("11345@7"));
    assert_eq!(processes.numbers(0, &["memory", "busy", "memory_busy"]), [16_452_157_440.0, 0.98, 0.1].map(Some));
}

#[test]
fn an_idle_device_reads_zero_and_a_process_that_ran_nothing_reads_null() {
    let mut machine = Machine::new(H100_IDLE, &[]);
    machine.read();
    let (rows, processes) = machine.read();
    assert_eq!(rows.numbers(0, &["busy", "sm_active", "pcie_read", "power"]), [0.0, 0.0, 0.0, 69.85].map(Some));
    assert_eq!(rows.text(0, "throttle").as_deref(), Some("idle"));
    assert_eq!(processes.len(), 0);

    let mut machine = Machine::new(H100_LOAD, &[]);
    machine.job(&[11327]);
    let (_, processes) = machine.read();
    assert_eq!(processes.numbers(0, &["memory", "busy"]), [Some(2_690_646_016.0), None]);
    let reason = machine.reason("accelerator_process.busy", "11327@7").unwrap();
    assert_eq!(reason, "the driver has no sample of the process since the last reading");
}

#[test]
fn a_split_device_has_nulls_and_reasons_but_no_zeros() {
    let mut machine = Machine::new(H100_MIG, &[]);
    machine.job(&[21198]);
    machine.read();
    let (rows, processes) = machine.read();
    assert_eq!(rows.len(), 5, "the device and its four instances");
    let shares = ["busy", "memory_busy", "sm_active", "encoder", "decoder", "jpeg", "ofa"];
    assert_eq!(rows.numbers(0, &shares), [None; 7]);
    assert_eq!(rows.numbers(0, &["power", "temperature", "pcie_read"]), [433.78, 53.0, 19_191_000.0].map(Some));
    let reason = machine.reason("accelerator.busy", GPU).unwrap();
    assert_eq!(reason, "MIG is on, and the driver does not offer it for a device that is split");

    let instance = "MIG-00000000-0000-0000-0000-000000000000";
    assert_eq!(rows.text(1, "device").as_deref(), Some(instance));
    assert_eq!(rows.text(1, "parent").as_deref(), Some(GPU));
    assert_eq!(rows.numbers(1, &["sm_active", "memory_used"]), [0.975, 11_629_756_416.0].map(Some));
    assert_eq!(rows.numbers(1, &["busy", "power", "nvlink_read"]), [None; 3]);
    assert!(machine.reason("accelerator.busy", instance).unwrap().contains("MIG instance"));
    assert_eq!(rows.numbers(2, &["sm_active", "memory_used"]), [None, Some(17_825_792.0)]);

    assert_eq!(processes.text(0, "device").as_deref(), Some(instance));
    assert_eq!(processes.numbers(0, &["memory", "busy"]), [Some(7_847_542_784.0), None]);
    assert!(machine.reason("accelerator_process.busy", "21198@7").unwrap().starts_with("MIG is on"));
}

#[test]
fn a_device_without_counters_says_so_and_samples_its_link() {
    let mut machine = Machine::new(RTX_4080, &[]);
    machine.job(&[5022]);
    let (rows, processes) = machine.read();
    assert_eq!(rows.numbers(0, &["busy", "encoder", "sm_active", "nvlink_read"]), [Some(0.07), Some(0.72), None, None]);
    assert_eq!(rows.numbers(0, &["pcie_read", "pcie_written"]), [1.43623e9, 1.74169e8].map(Some));
    assert!(machine.reason("accelerator.sm_active", GPU).unwrap().contains("Hopper"));
    assert_eq!(machine.reason("accelerator.nvlink_read", GPU), Some("the driver does not offer it on this device"));
    // Two samples of the process came since the last reading: their mean.
    assert_eq!(processes.numbers(0, &["busy", "encoder"]), [0.05, 0.345].map(Some));
}

#[test]
fn a_library_that_lacks_calls_leaves_only_their_columns_null() {
    let mut machine = Machine::new(H100_LOAD, &["-DOLD_DRIVER"]);
    machine.job(&[11345]);
    let (rows, processes) = machine.read();
    assert_eq!(rows.numbers(0, &["busy", "power", "jpeg", "nvlink_read"]), [Some(1.0), Some(631.95), None, None]);
    let reason = machine.reason("accelerator.jpeg", GPU).unwrap();
    assert_eq!(reason, "the driver library has no `nvmlDeviceGetJpgUtilization`: a newer driver has");
    assert_eq!(processes.len(), 0);
    assert!(machine.reason("accelerator_process", "11345@7").unwrap().contains("RunningProcesses_v3"));
}

#[test]
fn a_device_lost_in_the_middle_of_a_run_keeps_its_row_with_one_reason_and_may_return() {
    let mut machine = Machine::new(H100_LOAD, &[]);
    machine.read();
    machine.change("0.mig 0\n", "0.mig 0\n0.lost 15\n");
    let (rows, processes) = machine.read();
    assert_eq!((rows.len(), processes.len()), (1, 0));
    assert_eq!(rows.numbers(0, &["busy", "sm_active", "power", "memory_used"]), [None; 4]);
    assert_eq!(rows.text(0, "name").as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert!(machine.reason("accelerator", GPU).unwrap().contains("fell off the bus"));

    machine.change("0.lost 15\n", "");
    let (rows, _) = machine.read();
    assert_eq!(rows.numbers(0, &["busy", "sm_active"]), [Some(1.0), None], "no average reaches over the gap");
    assert_eq!(machine.reason("accelerator", GPU), None);
    assert_eq!(machine.read().0.numbers(0, &["sm_active"]), [Some(0.992)]);
}

#[test]
fn impossible_percentages_are_null_not_truth() {
    let mut machine = Machine::new(&H100_LOAD.replace("utilization.gpu 100", "utilization.gpu 4294967295"), &[]);
    let (rows, _) = machine.read();
    assert_eq!(rows.numbers(0, &["busy", "memory_busy"]), [None, Some(0.11)]);
    assert_eq!(machine.reason("accelerator.busy", GPU), Some("the driver gave no plausible value"));
}

#[test]
fn no_library_is_one_reason_and_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::at(folder, None);
    assert_eq!(machine.read().0.len(), 0);
    let reason = "no NVIDIA driver library (libnvidia-ml.so.1)";
    assert_eq!(machine.absent, [("accelerator".to_owned(), String::new(), Some(reason.to_owned()))]);
    machine.absent.clear();
    machine.read();
    assert_eq!(machine.absent, [], "a reason is said once");
    assert_eq!(probe(&machine.context).unwrap_err().message, reason);
}

#[test]
fn a_driver_that_is_not_loaded_or_no_library_at_all_does_not_panic() {
    let mut machine = Machine::new("init 9\n", &[]);
    machine.read();
    assert_eq!(machine.reason("accelerator", ""), Some("NVIDIA driver is not loaded"));

    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("libnvidia-ml.so.1");
    fs::write(&text, "not a library").unwrap();
    let mut machine = Machine::at(folder, Some(text.clone()));
    machine.read();
    assert_eq!(machine.reason("accelerator", "").unwrap(), format!("no NVIDIA driver library at `{}`", text.display()));
}

#[test]
fn a_driver_that_appears_later_is_found() {
    let mut machine = Machine::new("init 9\n", &[]);
    machine.read();
    machine.change("init 9\n", H100_LOAD);
    assert_eq!((0..=SEARCH_EVERY).map(|_| machine.read().0.len()).max(), Some(1));
    assert_eq!(machine.reason("accelerator", ""), None);
}

#[test]
fn in_a_container_a_process_counts_only_with_a_device_open() {
    let mut machine = Machine::new(H100_LOAD, &[]);
    machine.job(&[11345]);
    let proc = machine.folder.path().join("proc");
    fs::create_dir_all(proc.join("self/ns")).unwrap();
    std::os::unix::fs::symlink("pid:[4026532177]", proc.join("self/ns/pid")).unwrap();
    assert_eq!(machine.read().1.len(), 0);
    assert!(machine.reason("accelerator_process", "11345@7").unwrap().contains("hostPID"));

    fs::create_dir_all(proc.join("11345/fd")).unwrap();
    std::os::unix::fs::symlink("/dev/nvidia0", proc.join("11345/fd/20")).unwrap();
    assert_eq!(machine.read().1.len(), 1);
    assert_eq!(machine.reason("accelerator_process", "11345@7"), None);
}

#[test]
fn the_probe_names_driver_device_and_counters() {
    let machine = Machine::new(H100_LOAD, &[]);
    let line = probe(&machine.context).unwrap();
    assert_eq!(line, "NVIDIA driver 590.48.01: NVIDIA H100 80GB HBM3 (SM activity by GPM)");
}

#[test]
fn amd_devices_are_read_from_the_files_of_their_driver() {
    let folder = tempfile::tempdir().unwrap();
    let card = folder.path().join("sys/class/drm/card0/device");
    let sensors = card.join("hwmon/hwmon3");
    fs::create_dir_all(&sensors).unwrap();
    let files = [
        ("vendor", "0x1002\n"),
        ("unique_id", "c0ffee0123456789\n"),
        ("product_name", "AMD Instinct MI210\n"),
        ("uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:63:00.0\n"),
        ("gpu_busy_percent", "87\n"),
        ("mem_info_vram_used", "1073741824\n"),
        ("mem_info_vram_total", "68702699520\n"),
        ("pp_dpm_sclk", "0: 500Mhz\n1: 800Mhz *\n2: 1700Mhz\n"),
        ("hwmon/hwmon3/power1_average", "143000000\n"),
        ("hwmon/hwmon3/temp1_input", "51000\n"),
    ];
    for (name, text) in files {
        fs::write(card.join(name), text).unwrap();
    }
    fs::create_dir_all(folder.path().join("sys/class/drm/card0-DP-1")).unwrap();
    let mut machine = Machine::at(folder, None);
    let (rows, _) = machine.read();
    assert_eq!(rows.len(), 1);
    let device = "GPU-c0ffee0123456789";
    assert_eq!(rows.text(0, "device").as_deref(), Some(device));
    let columns = ["busy", "memory_used", "memory_total", "power", "temperature", "clock_sm"];
    assert_eq!(rows.numbers(0, &columns), [0.87, 1_073_741_824.0, 68_702_699_520.0, 143.0, 51.0, 8e8].map(Some));
    assert_eq!(rows.numbers(0, &["memory_busy", "sm_active"]), [None, None]);
    let reason = machine.reason("accelerator.memory_busy", device).unwrap();
    assert_eq!(reason, "the amdgpu driver gives no `mem_busy_percent` for this device");
    assert_eq!(machine.reason("accelerator", ""), None, "no word of NVIDIA where AMD is there");
}
