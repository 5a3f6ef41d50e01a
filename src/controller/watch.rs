//! One watch: its own client stamp, its own backoff, its own trouble.
use crate::{
    client::{Progress, Stamp},
    clock::Clock,
    controller::{caches::Woken, queue::Wakes},
    error::causes,
};
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::StreamExt;
use kube::{
    Client, Resource,
    api::Api,
    runtime::watcher::{self, Error, Event, watcher},
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, pin::pin, time::Duration};
use tokio::time::sleep;
use tower::{Layer, service_fn};
use tracing::{info, warn};

/// How long the server keeps one watch request open. Load balancers drop idle connections at about 240 s.
const TIMEOUT_SECS: u32 = 190;
/// A watch that heard nothing for so long is stuck: the client drops a dead connection 5 s after the time-out, and
/// then tries again at least every [`BACKOFF_MAX`].
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(300);
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// What is watched and how it goes.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The plural, as the server writes it.
    pub plural: &'static str,
    /// Set for our own kinds: the CustomResourceDefinition that must be there.
    pub definition: Option<String>,
    /// When the server was last heard of.
    pub progress: Progress,
}

impl Watched {
    /// Starts the account of a watch.
    pub fn new(plural: &'static str, definition: Option<String>, clock: Clock) -> Self {
        Self { plural, definition, progress: Progress::new(clock) }
    }

    /// Returns a client whose answers are stamped; it shares the connections of `client`.
    pub fn client(&self, client: &Client) -> Client {
        let inner = client.clone();
        let send = service_fn(move |request| {
            let inner = inner.clone();
            async move { inner.send(request).await }
        });
        Client::new(Stamp(self.progress.clone()).layer(send), client.default_namespace())
    }

    fn trouble(&self, error: &Error) -> String {
        match (&self.definition, status_of(error)) {
            (Some(definition), Some((404, _))) => {
                format!("custom resource definition {definition} is missing")
            }
            (_, Some((code, message))) => format!("{code}: {message}"),
            (_, None) => causes(error),
        }
    }
}

/// Watches for ever. `take` gets each event and returns whom to wake.
pub(super) async fn watch<K>(
    watched: Watched,
    api: Api<K>,
    selector: Option<&'static str>,
    wakes: Wakes,
    mut take: impl FnMut(Event<K>) -> Vec<Woken>,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut config = watcher::Config::default().timeout(TIMEOUT_SECS).streaming_lists();
    config.label_selector = selector.map(str::to_owned);
    let mut pauses = backoff().build();
    loop {
        let mut events = pin!(watcher(api.clone(), config.clone()));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if watched.progress.set_trouble(None) {
                        info!(watch = watched.plural, "watch delivers again");
                    }
                    pauses = backoff().build();
                    for Woken { keys, after } in take(event) {
                        keys.into_iter().for_each(|key| wakes.after(key, after));
                    }
                }
                Err(error) if config.initial_list_strategy != lists() && lacks_streaming_lists(&error) => {
                    info!(watch = watched.plural, "the server has no streaming lists: listing in pages");
                    config.initial_list_strategy = lists();
                    break;
                }
                // Too old a position: the server is well, and a new list comes next. Soon, but not all at once.
                Err(error) if status_of(&error).is_some_and(|(code, _)| code == 410) => {
                    pauses = backoff().build();
                    sleep(pauses.next().unwrap_or(BACKOFF_MAX)).await;
                }
                Err(error) => {
                    let trouble = watched.trouble(&error);
                    if watched.progress.set_trouble(Some(trouble.clone())) {
                        warn!(watch = watched.plural, trouble, "watch fails, trying again");
                    }
                    sleep(pauses.next().unwrap_or(BACKOFF_MAX)).await;
                }
            }
        }
    }
}

fn lists() -> watcher::InitialListStrategy {
    watcher::InitialListStrategy::ListWatch
}

fn backoff() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(BACKOFF_MIN)
        .with_max_delay(BACKOFF_MAX)
        .with_factor(2.0)
        .with_jitter()
        .without_max_times()
}

fn status_of(error: &Error) -> Option<(u16, &str)> {
    match error {
        Error::WatchError(status) => Some((status.code, &status.message)),
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status)) => Some((status.code, &status.message)),
        _ => None,
    }
}

/// A server without the feature calls the parameter forbidden (422).
fn lacks_streaming_lists(error: &Error) -> bool {
    status_of(error).is_some_and(|(code, message)| code == 422 && message.contains("sendInitialEvents"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn refused(code: u16, message: &str) -> Error {
        let status = Status { code, message: message.to_owned(), ..Status::default() };
        Error::WatchStartFailed(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_missing_definition_is_named_and_only_for_our_own_kinds() {
        let own = Watched::new("widgets", Some("widgets.core.petri.run".to_owned()), Clock);
        let trouble = own.trouble(&refused(404, "404 page not found"));
        assert_eq!(trouble, "custom resource definition widgets.core.petri.run is missing");
        assert_eq!(own.trouble(&refused(403, "no")), "403: no");
        let builtin = Watched::new("pods", None, Clock);
        assert_eq!(builtin.trouble(&refused(404, "404 page not found")), "404: 404 page not found");
    }

    #[test]
    fn a_server_without_streaming_lists_is_recognised_and_other_refusals_are_not() {
        let message = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList \
                       feature gate is enabled";
        assert!(lacks_streaming_lists(&refused(422, message)));
        assert!(!lacks_streaming_lists(&refused(422, "resourceVersion: Invalid value")));
        assert!(!lacks_streaming_lists(&refused(403, message)));
    }
}
