//! Performance counters (GPM, Hopper and later): the average between two samples, of which the
//! earlier is kept from one reading to the next.

use nvml_wrapper::Nvml;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};

use crate::accelerator::parse;

const METRICS: [GpmMetricId; 3] = [GpmMetricId::SmUtil, GpmMetricId::PcieRxPerSec, GpmMetricId::PcieTxPerSec];

/// The averages since the last reading.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Averages {
    /// Share of the multiprocessors with work assigned.
    pub(super) sm_active: Option<f64>,
    /// Bytes a second received over PCIe.
    pub(super) pcie_read: Option<f64>,
    /// Bytes a second sent over PCIe.
    pub(super) pcie_written: Option<f64>,
}

/// The earlier sample.
#[derive(Default)]
pub(super) struct Counters {
    last: Option<GpmSample<'static>>,
}

impl Counters {
    /// The averages from the sample before to this one; `None` at the first.
    pub(super) fn advance(
        &mut self,
        nvml: &'static Nvml,
        sample: Result<GpmSample<'static>, NvmlError>,
    ) -> Result<Option<Averages>, NvmlError> {
        // A gap ends the interval: the next average must not reach over it.
        let last = self.last.take();
        let sample = sample?;
        let averages = last.map(|last| averages(nvml, &last, &sample)).transpose();
        self.last = Some(sample);
        averages
    }
}

fn averages(nvml: &'static Nvml, from: &GpmSample<'static>, to: &GpmSample<'static>) -> Result<Averages, NvmlError> {
    let mut found = Averages::default();
    for metric in gpm_metrics_get(nvml, from, to, &METRICS)?.into_iter().flatten() {
        let rate = || {
            let value = metric.value * parse::bytes_per(&metric.metric_info.unit);
            (value.is_finite() && value >= 0.0).then_some(value)
        };
        match metric.metric_id {
            GpmMetricId::SmUtil => found.sm_active = parse::share(metric.value),
            GpmMetricId::PcieRxPerSec => found.pcie_read = rate(),
            GpmMetricId::PcieTxPerSec => found.pcie_written = rate(),
            _ => {}
        }
    }
    Ok(found)
}
