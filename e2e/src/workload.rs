//! The workload of the exemplar charts: one small binary that is an api, a worker or a web front.
//!
//! All three serve HTTP on one port; `/healthz` answers 200 only when the mode's real work succeeds.

use std::{future::Future, net::SocketAddr, time::Duration};

use axum::Router;
use thiserror::Error;

pub mod api;
mod database;
pub mod http;
pub mod web;
pub mod worker;

pub use database::{Database, DatabaseArgs};

/// Bounds every wait for somebody else, so that a probe of Petri (2 s) gets an answer and not a time-out.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_millis(1500);

/// Is why the workload cannot do what it was asked.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// The database refused or was not there.
    #[error("database: {}", reason(.0))]
    Database(#[from] tokio_postgres::Error),
    /// A peer did not answer in time.
    #[error("{0} did not answer in time")]
    Timeout(&'static str),
    /// The given address of the api is not one.
    #[error("{0:?} is not an http address")]
    Address(String),
    /// A peer's answer is not HTTP, too long, or another status than 200.
    #[error("unexpected answer: {0}")]
    Answer(String),
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// The error alone says "db error" or "error connecting to server"; its cause says why.
fn reason(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Serves `router` until `stop` resolves, then finishes the requests in flight.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(
    listen: SocketAddr,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), WorkloadError> {
    let listener = tokio::net::TcpListener::bind(listen).await?;
    Ok(axum::serve(listener, router).with_graceful_shutdown(stop).await?)
}

/// Resolves at SIGTERM or SIGINT: the first process of a container gets no default handler from the kernel.
///
/// # Errors
/// The handlers cannot be installed.
pub fn stopped() -> Result<impl Future<Output = ()> + Send + 'static, WorkloadError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
