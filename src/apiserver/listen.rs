//! Connections: bounded in number, and each in how long it may say nothing. hyper's own limits, which axum's short way
//! of serving does not show.

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    time::timeout,
};
use tracing::{info, warn};

/// How long a client may take for the head of a request, and be idle between two.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest head of a request: a token of 16 KiB fits.
const HEAD_MAX: usize = 64 << 10;

/// What a listener may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once; further ones wait in the kernel.
    pub connections: usize,
    /// How long requests may go on after the stop.
    pub drain: Duration,
    /// See [`HEAD_TIME_MAX`].
    pub head: Duration,
}

/// Serves until `stop` says so, then ends idle connections and waits for requests to end.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD_MAX);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted?,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Some((stream, place)) = accepted else { continue };
        // What cannot be set is slower, not wrong.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(routes.clone());
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that goes away or is too slow is nobody's error.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    info!("no more connections are taken, requests go on to their end");
    if timeout(limits.drain, graceful.shutdown()).await.is_err() {
        warn!("requests were cut off at the end of the drain");
    }
    Ok(())
}

type Accepted = (tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit);

/// Takes the next connection when there is a place for it; none when the client or the process has a passing trouble.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<Option<Accepted>> {
    let Ok(place) = Arc::clone(places).acquire_owned().await else { return Err(io::Error::other("closed")) };
    match listener.accept().await {
        Ok((stream, _)) => Ok(Some((stream, place))),
        Err(error) if is_passing(&error) => {
            warn!(%error, "a connection was not taken");
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A client that went away, or too many open files (24 and 23 on Linux): both pass.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
        || matches!(error.raw_os_error(), Some(23 | 24))
}
