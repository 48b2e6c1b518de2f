//! One Parquet file, encoded as the parts of a run are.

use std::io::Write;
use std::sync::Arc;

use parquet::arrow::ArrowWriter;

use super::failed;
use crate::error::Result;
use crate::run::RowBatches;
use crate::run::part;
use crate::table::Table;

pub(super) fn write(table: &Table, rows: RowBatches, out: &mut (dyn Write + Send)) -> Result<()> {
    let options = part::options(&part::growing(table));
    let mut writer = ArrowWriter::try_new_with_options(out, Arc::clone(rows.schema()), options).map_err(failed)?;
    for batch in rows {
        writer.write(&batch?).map_err(failed)?;
    }
    writer.close().map(|_| ()).map_err(failed)
}
