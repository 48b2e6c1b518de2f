//! A sampling thread's life, and the account of what it costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use feedline_traces::{Background, Error, Result};

/// A running thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a thread that repeats a round of work; each round says how long to sleep until the
    /// next. `prepare` runs on the new thread, so that what it makes may be bound to it.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub(crate) fn start<P, R>(name: &str, prepare: P) -> Result<Self>
    where
        P: FnOnce() -> R + Send + 'static,
        R: FnMut() -> Duration,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let body = move || {
            let mut round = prepare();
            while !theirs.load(Ordering::Acquire) {
                thread::park_timeout(round());
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(body);
        let thread = thread.map_err(|cause| Error::io(format_args!("thread `{name}`"), &cause))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// What a sampling thread cost and lost since last asked.
#[derive(Debug, Default)]
pub(crate) struct Account {
    cpu: AtomicU64,
    drops: AtomicU64,
    skipped: AtomicU64,
}

impl Account {
    /// CPU nanoseconds were used.
    pub(crate) fn spend(&self, nanos: u64) {
        self.cpu.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Things were lost because a list was full.
    pub(crate) fn drop_some(&self, count: u64) {
        self.drops.fetch_add(count, Ordering::Relaxed);
    }

    /// Samples were left out.
    pub(crate) fn skip(&self, count: u64) {
        self.skipped.fetch_add(count, Ordering::Relaxed);
    }

    /// Closes the account and opens a fresh one.
    pub(crate) fn take(&self) -> Background {
        Background {
            cpu: self.cpu.swap(0, Ordering::Relaxed),
            drops: self.drops.swap(0, Ordering::Relaxed),
            skipped: self.skipped.swap(0, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_sampler_ends_its_thread_at_once() {
        let rounds = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&rounds);
        let running = Running::start("test", move || {
            move || {
                theirs.fetch_add(1, Ordering::SeqCst);
                Duration::from_secs(3600)
            }
        });
        drop(running.unwrap());
        assert_eq!(Arc::strong_count(&rounds), 1, "the thread and what it held are gone");
    }

    #[test]
    fn an_account_is_closed_when_it_is_read() {
        let account = Account::default();
        account.spend(5);
        account.drop_some(2);
        account.skip(1);
        assert_eq!(account.take(), Background { cpu: 5, drops: 2, skipped: 1 });
        assert_eq!(account.take(), Background::default());
    }
}
