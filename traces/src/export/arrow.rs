//! Arrow IPC file, compressed with zstd.

use std::io::Write;

use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};

use super::failed;
use crate::error::Result;
use crate::run::RowBatches;

pub(super) fn write(rows: RowBatches, out: &mut dyn Write) -> Result<()> {
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).map_err(failed)?;
    let mut writer = FileWriter::try_new_with_options(out, rows.schema(), options).map_err(failed)?;
    for batch in rows {
        writer.write(&batch?).map_err(failed)?;
    }
    writer.finish().map_err(failed)
}
