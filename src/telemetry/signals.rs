//! The signals that end a process in order.
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

/// Is done at the first SIGTERM or SIGINT.
///
/// # Errors
/// The signals cannot be received.
pub fn stopped() -> io::Result<impl Future<Output = ()>> {
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    Ok(async move {
        let [terminate, interrupt] = &mut signals;
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM received"),
            _ = interrupt.recv() => info!("SIGINT received"),
        }
    })
}
