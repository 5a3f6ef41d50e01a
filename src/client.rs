//! Clients of the API server: three with separate connections, so that a burst of one kind of work cannot delay
//! another, none of which repeats a request by itself, and layers that count, fence, stamp and read the server's time.

mod answers;
mod count;
mod denials;
mod fence;
mod progress;
mod refused;
mod server_time;

pub use answers::Listen;
pub use count::CountRequests;
pub use denials::Denials;
pub use fence::Fence;
pub use progress::{Progress, Stamp};
pub use refused::noting_missing_rights;
pub use server_time::ReadServerTime;

use crate::{clock::ServerClock, error::CallError, leader::Leadership};
use kube::{Client, Config, client::ClientBuilder};
use std::time::Duration;
use tokio::time::timeout;
use tower::util::option_layer;

/// How long a call that is not a watch may take: well within the time between a renewal and the lease's deadline.
pub const CALL_MAX: Duration = Duration::from_secs(8);

/// The clients that a reconcile and the watches use.
#[derive(Clone)]
pub struct Clients {
    /// For watches only.
    pub watch: Client,
    /// For everything a reconcile does; writes are refused while this process does not lead. Its answers set the clock
    /// that was given: each pass begins with one.
    pub effects: Client,
}

impl Clients {
    /// Makes both; connects nothing yet.
    ///
    /// # Errors
    /// Bad certificates or credentials in `config`.
    pub fn new(
        config: &Config,
        count: &CountRequests,
        leadership: &Leadership,
        clock: &ServerClock,
    ) -> Result<Self, kube::Error> {
        let (fence, time) = (Fence::new(leadership.clone()), Listen(ReadServerTime(clock.clone())));
        Ok(Self {
            watch: client(config, count, None, None)?,
            effects: client(config, count, Some(time), Some(fence))?,
        })
    }

    /// Makes one that nothing fences, with connections of its own: for the Lease, and for the API server.
    ///
    /// # Errors
    /// Bad certificates or credentials in `config`.
    pub fn unfenced(config: &Config, count: &CountRequests) -> Result<Client, kube::Error> {
        client(config, count, None, None)
    }
}

fn client(
    config: &Config,
    count: &CountRequests,
    time: Option<Listen<ReadServerTime>>,
    fence: Option<Fence>,
) -> Result<Client, kube::Error> {
    let mut config = config.clone();
    // One command is one API write: retries are decisions, and they are taken elsewhere.
    config.default_retry = false;
    let builder = ClientBuilder::try_from(config)?.with_layer(&Listen(count.clone()));
    Ok(builder.with_layer(&option_layer(time)).with_layer(&option_layer(fence)).build())
}

/// Gives a call that is not a watch a limit: the client itself waits for ever on a silent connection.
///
/// # Errors
/// The call's own, or [`CallError::TimedOut`]: a write may then have been done.
pub async fn timed<T>(limit: Duration, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match timeout(limit, call).await {
        Ok(outcome) => outcome.map_err(CallError::from).inspect_err(refused::note),
        Err(_) => Err(CallError::TimedOut(limit)),
    }
}
