//! When a recording ends: a span has passed, somebody asked, or the job is over.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// A flag that becomes true after `span`, or on ctrl-C, SIGTERM or SIGHUP. Call it within a tokio runtime.
#[must_use]
pub fn after(span: Option<Duration>) -> (watch::Sender<bool>, watch::Receiver<bool>) {
    let (sender, receiver) = watch::channel(false);
    let flag = sender.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = elapsed(span) => {}
            () = asked(SignalKind::interrupt()) => {}
            () = asked(SignalKind::terminate()) => {}
            () = asked(SignalKind::hangup()) => {}
        }
        let _ = flag.send(true);
    });
    (sender, receiver)
}

async fn elapsed(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}

async fn asked(kind: SignalKind) {
    match signal(kind) {
        Ok(mut stream) => {
            stream.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}
