//! AMD devices, from the files of the `amdgpu` kernel driver.

use std::path::Path;

use feedline_traces::{Gauge, Id, Key};

use super::{AcceleratorRow, Reading, parse};
use crate::Host;

/// PCI vendor of AMD.
const VENDOR: &str = "0x1002";

/// What the driver has no file for, or only one that takes a second to read (`pcie_bw`).
const NOT_OFFERED: &[&str] = &[
    "accelerator.sm_active",
    "accelerator.pcie_read",
    "accelerator.pcie_written",
    "accelerator.throttle",
    "accelerator.encoder",
    "accelerator.decoder",
    "accelerator.jpeg",
    "accelerator.ofa",
    "accelerator.nvlink_read",
    "accelerator.nvlink_written",
];

/// A row for each AMD device of the machine.
pub(super) fn read(host: &Host) -> Vec<Reading<AcceleratorRow>> {
    let cards = host.names("sys/class/drm").into_iter();
    let cards = cards.filter(|name| name.strip_prefix("card").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())));
    cards.filter_map(|card| device(host, &card)).collect()
}

fn device(host: &Host, card: &str) -> Option<Reading<AcceleratorRow>> {
    let folder = format!("sys/class/drm/{card}/device");
    if text(host, format!("{folder}/vendor"))? != VENDOR {
        return None;
    }
    let uevent = host.read(format!("{folder}/uevent")).unwrap_or_default();
    let slot = parse::variable(&uevent, "PCI_SLOT_NAME").map(str::to_owned);
    let unique = text(host, format!("{folder}/unique_id")).map(|id| format!("GPU-{}", id.trim_start_matches("0x")));
    let entity = unique.or(slot).unwrap_or_else(|| card.to_owned());
    let product = text(host, format!("{folder}/product_name")).unwrap_or_else(|| "AMD GPU".to_owned());
    let sensors = host.names(format!("{folder}/hwmon")).into_iter().next().map(|name| format!("{folder}/hwmon/{name}"));
    let mut read = Files { host, said: Vec::new() };
    let percent = |value: Option<f64>| value.and_then(parse::share);
    let mut row = AcceleratorRow {
        device: Key::from(entity.as_str()),
        index: Id(card.trim_start_matches("card").parse().ok()),
        name: product.into(),
        busy: percent(read.number("accelerator.busy", &[format!("{folder}/gpu_busy_percent")])).into(),
        memory_busy: percent(read.number("accelerator.memory_busy", &[format!("{folder}/mem_busy_percent")])).into(),
        memory_used: read.number("accelerator.memory_used", &[format!("{folder}/mem_info_vram_used")]).into(),
        memory_total: read.number("accelerator.memory_total", &[format!("{folder}/mem_info_vram_total")]).into(),
        clock_sm: read.clock("accelerator.clock_sm", format!("{folder}/pp_dpm_sclk")),
        clock_memory: read.clock("accelerator.clock_memory", format!("{folder}/pp_dpm_mclk")),
        ..AcceleratorRow::default()
    };
    let sensor = |file: &str| sensors.iter().map(|folder| format!("{folder}/{file}")).collect::<Vec<_>>();
    let power = [sensor("power1_average"), sensor("power1_input")].concat();
    row.power = read.number("accelerator.power", &power).map(|microwatts| microwatts / 1e6).into();
    let temperature = read.number("accelerator.temperature", &sensor("temp1_input"));
    row.temperature = temperature.map(|millidegrees| millidegrees / 1e3).into();
    let mut said = read.said;
    said.extend(NOT_OFFERED.iter().map(|column| (*column, Some("not read on AMD devices".to_owned()))));
    said.push(("accelerator_process", Some("not read on AMD devices".to_owned())));
    Some(Reading { row: Some(row), entity, said })
}

/// Reads files, and keeps what is to be said of those that are not there.
struct Files<'a> {
    host: &'a Host,
    said: Vec<(&'static str, Option<String>)>,
}

impl Files<'_> {
    /// The number in the first of the files that has one.
    fn number(&mut self, column: &'static str, files: &[String]) -> Option<f64> {
        let value = files.iter().find_map(|file| text(self.host, file)?.parse().ok()).filter(|x: &f64| x.is_finite());
        let file = files.first().and_then(|file| Path::new(file).file_name()?.to_str()).unwrap_or("hwmon");
        self.say(column, value.is_some(), file);
        value
    }

    fn clock<U>(&mut self, column: &'static str, file: String) -> Gauge<U> {
        let value = self.host.read(&file).ok().and_then(|levels| parse::current_clock(&levels));
        self.say(column, value.is_some(), file.rsplit('/').next().unwrap_or(&file));
        value.into()
    }

    fn say(&mut self, column: &'static str, known: bool, file: &str) {
        self.said.push((column, (!known).then(|| format!("the amdgpu driver gives no `{file}` for this device"))));
    }
}

fn text(host: &Host, path: impl AsRef<Path>) -> Option<String> {
    host.read(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
