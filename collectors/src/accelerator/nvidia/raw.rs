//! The few calls that the safe wrapper does not have, or has without their scope.

use std::os::raw::c_uint;

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper_sys::bindings::{field_id, nvmlDevice_t, nvmlFieldValue_t, nvmlReturn_t};

/// A call that fills two numbers, the second of which is a sampling period.
type Utilization = unsafe extern "C" fn(nvmlDevice_t, *mut c_uint, *mut c_uint) -> nvmlReturn_t;

fn loaded<T: Copy, E: std::fmt::Display>(symbol: &Result<T, E>) -> Result<T, NvmlError> {
    symbol.as_ref().copied().map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()))
}

fn utilization(device: &Device<'_>, call: Utilization) -> Result<u32, NvmlError> {
    let (mut percent, mut period) = (0, 0);
    // SAFETY: the handle comes from the library that `call` was loaded from, which outlives it,
    // and both pointers are to live integers of the type that the call writes.
    nvml_try(unsafe { call(device.handle(), &raw mut percent, &raw mut period) })?;
    Ok(percent)
}

/// Percent of the JPEG decoders' time in use.
pub(super) fn jpeg(device: &Device<'_>) -> Result<u32, NvmlError> {
    utilization(device, loaded(&device.nvml().lib().nvmlDeviceGetJpgUtilization)?)
}

/// Percent of the optical-flow engine's time in use.
pub(super) fn ofa(device: &Device<'_>) -> Result<u32, NvmlError> {
    utilization(device, loaded(&device.nvml().lib().nvmlDeviceGetOfaUtilization)?)
}

/// The GPU instance that a MIG device handle stands for.
pub(super) fn gpu_instance(device: &Device<'_>) -> Result<u32, NvmlError> {
    let call = loaded(&device.nvml().lib().nvmlDeviceGetGpuInstanceId)?;
    let mut id = 0;
    // SAFETY: as in `utilization`.
    nvml_try(unsafe { call(device.handle(), &raw mut id) })?;
    Ok(id)
}

/// Bytes received and sent over NVLink, payload only.
///
/// The scope matters: left at its default of 0 the counters are those of link 0 alone.
pub(super) fn nvlink(device: &Device<'_>) -> Result<(u64, u64), NvmlError> {
    const ALL_LINKS: c_uint = c_uint::MAX;
    let call = loaded(&device.nvml().lib().nvmlDeviceGetFieldValues)?;
    let field = |id| {
        // SAFETY: the struct holds only integers and a union of plain numbers, for which zero is a value.
        let mut field: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
        field.fieldId = id;
        field.scopeId = ALL_LINKS;
        field
    };
    let mut fields =
        [field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX].map(field);
    // SAFETY: the call writes only the two structs that it is told of.
    nvml_try(unsafe { call(device.handle(), 2, fields.as_mut_ptr()) })?;
    let bytes = |field: &nvmlFieldValue_t| {
        nvml_try(field.nvmlReturn)?;
        // SAFETY: these counters are `unsigned long long`, and any bits are one.
        Ok::<u64, NvmlError>(unsafe { field.value.ullVal }.saturating_mul(1024))
    };
    Ok((bytes(&fields[0])?, bytes(&fields[1])?))
}
