//! NVIDIA devices, through the management library (NVML) that comes with the driver.

mod device;
mod gpm;
mod processes;
#[expect(unsafe_code, reason = "calls that the safe wrapper lacks go to the C library directly")]
mod raw;

use std::ffi::OsStr;
use std::path::PathBuf;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::{AcceleratorProcessRow, AcceleratorRow, Reading, parse};
use crate::target::Process;
use crate::{Context, Host};
use device::Device;

/// Where the library is found: by the loader's rules first, then where containers and
/// distributions keep it out of the loader's sight.
const PLACES: &[&str] = &[
    "libnvidia-ml.so.1",
    "libnvidia-ml.so",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
];

/// The devices of a loaded library.
pub(super) struct Nvidia {
    driver: Option<String>,
    devices: Vec<Device>,
}

impl Nvidia {
    /// Loads the library that the settings name, or the one in the usual places. A machine that
    /// is a folder of captured files has none of its own.
    pub(super) fn load(context: &Context) -> Result<Self, String> {
        let places: Vec<PathBuf> = match &context.settings.nvml {
            Some(path) => vec![path.clone()],
            None if context.host.is_live() => PLACES.iter().map(PathBuf::from).collect(),
            None => Vec::new(),
        };
        let mut reason = "no NVIDIA driver library (libnvidia-ml.so.1)".to_owned();
        for place in places {
            match Nvml::builder().lib_path(OsStr::new(&place)).init() {
                Ok(nvml) => return Self::open(nvml),
                // A path that was asked for is named; of the usual places only the sum counts.
                Err(NvmlError::LibloadingError(_)) if context.settings.nvml.is_some() => {
                    reason = format!("no NVIDIA driver library at `{}`", place.display());
                }
                Err(NvmlError::LibloadingError(_)) => {}
                Err(error) => reason = why(&error, false),
            }
        }
        Err(reason)
    }

    fn open(nvml: Nvml) -> Result<Self, String> {
        // Samples and devices borrow the library, and a driver is never unloaded while it is
        // read: it stays for the life of the process.
        let nvml: &'static Nvml = Box::leak(Box::new(nvml));
        let count = nvml.device_count().map_err(|error| why(&error, false))?;
        let devices = (0..count).filter_map(|index| Device::open(nvml, index)).collect();
        Ok(Self { driver: nvml.sys_driver_version().ok(), devices })
    }

    /// Whether the driver shows no device.
    pub(super) fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// One line for a list of what works.
    pub(super) fn describe(&self) -> String {
        let devices: Vec<String> = self.devices.iter().map(Device::describe).collect();
        format!("NVIDIA driver {}: {}", self.driver.as_deref().unwrap_or("of unknown version"), devices.join(", "))
    }

    /// A row for each device and each MIG instance.
    pub(super) fn read(&mut self) -> Vec<Reading<AcceleratorRow>> {
        self.devices.iter_mut().flat_map(Device::read).collect()
    }

    /// A row for each device and process of the job that has a context on it.
    pub(super) fn processes(&mut self, host: &Host, job: &[Process]) -> Vec<Reading<AcceleratorProcessRow>> {
        let namespace = processes::Namespace::of(host);
        self.devices.iter_mut().flat_map(|device| processes::read(device, namespace, host, job)).collect()
    }
}

/// Why a call gave nothing, for the reader of a table.
fn why(error: &NvmlError, mig: bool) -> String {
    match error {
        NvmlError::NotSupported if mig => {
            "MIG is on, and the driver does not offer it for a device that is split".to_owned()
        }
        NvmlError::NotSupported => "the driver does not offer it on this device".to_owned(),
        NvmlError::FailedToLoadSymbol(message) => match parse::undefined_symbol(message) {
            Some(symbol) => format!("the driver library has no `{symbol}`: a newer driver has"),
            None => "the driver library lacks the call: a newer driver has it".to_owned(),
        },
        other => other.to_string(),
    }
}

/// Whether the device as a whole is gone, so that one reason stands for all columns.
fn is_lost(error: &NvmlError) -> bool {
    matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired)
}
