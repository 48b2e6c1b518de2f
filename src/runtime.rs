//! The tokio runtime of a program that collects.

use feedline_traces::{Error, Result};

/// A tokio runtime for the verbs that collect. When dropped it waits for nobody, so that a
/// collector that hangs cannot keep the program from ending.
pub(crate) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_name("feedline")
        .build()
        .map(|runtime| Runtime { handle: runtime.handle().clone(), owned: Some(runtime) })
        .map_err(|cause| Error::io("tokio runtime", &cause))
}

/// A runtime that waits for nobody when it is dropped.
pub(crate) struct Runtime {
    handle: tokio::runtime::Handle,
    owned: Option<tokio::runtime::Runtime>,
}

impl std::ops::Deref for Runtime {
    type Target = tokio::runtime::Handle;

    fn deref(&self) -> &Self::Target {
        &self.handle
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.owned.take() {
            runtime.shutdown_background();
        }
    }
}
