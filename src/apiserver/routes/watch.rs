//! A pipeline waits in one call: server-sent events until the environment is Ready or Failed, or gone.

use super::described::{Absent, Named, Refused, TooLong};
use crate::apiserver::{
    App,
    body::check_name,
    error::ApiError,
    identity::Principal,
    view::{Environment, decoded, phase},
};
use axum::{
    Extension,
    extract::{Path, State},
    response::{
        Sse,
        sse::{Event, KeepAlive},
    },
};
use futures::{Stream, StreamExt, stream};
use kube::runtime::{WatchStreamExt, watcher::watch_object};
use petri_crds::{EphemeralEnvironment, Phase};
use serde_json::json;
use std::{convert::Infallible, time::Duration};
use utoipa::ToSchema;

/// A line now and then, so that nothing in between takes the silence for an end.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Longest watch; a client asks again.
const WATCH_MAX: Duration = Duration::from_secs(3600);

/// One event of a watch.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: axum writes the events")]
pub(super) struct WatchEvent {
    /// `environment` or `end`
    #[schema(pattern = "^(environment|end)$")]
    event: String,
    /// The environment as JSON, or `{"reason": …}`
    data: String,
}

/// Streams an environment until it is Ready, Failed or gone.
///
/// Every change is an event `environment` with the environment as data; the last event is `end`, whose data says why
/// by `reason`: `ready`, `failed`, `gone`, or `again` when the client is to ask once more.
#[utoipa::path(get, path = "/v1/environments/{name}/watch", operation_id = "watchEnvironment",
    params(Named),
    responses(
        Refused, TooLong, Absent,
        (status = 200, description = "Server-sent events", body = WatchEvent, content_type = "text/event-stream"),
    ))]
pub(super) async fn watch(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    check_name(&name)?;
    let first = decoded(&app.cluster.get(&principal, &name).await?)?;
    let uid = first.metadata.uid.clone();
    let changes = watch_object(app.cluster.watched(), &name)
        .default_backoff()
        // A failure is tried again; what matters is that the stream ends some time.
        .filter_map(|change| std::future::ready(change.ok()))
        .map(move |change| change.filter(|environment| environment.metadata.uid == uid));
    let mut stop = app.stop.clone();
    let over = async move {
        tokio::select! {
            _ = tokio::time::sleep(WATCH_MAX) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    };
    let all = stream::once(std::future::ready(Some(first))).chain(changes).map(Some);
    let all = all.take_until(over).chain(stream::once(std::future::ready(None)));
    let events = all.scan((None, false), |(last, ended), change| {
        let (events, end) = told(last, change);
        let answer = if *ended { None } else { Some(stream::iter(events.into_iter().map(Ok))) };
        *ended |= end;
        std::future::ready(answer)
    });
    Ok(Sse::new(until_end(events.flatten())).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// Ends with the last event, and not only when the next change comes.
fn until_end(
    events: impl Stream<Item = Result<(Event, bool), Infallible>>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let events = Box::pin(events);
    stream::unfold(Some(events), |events| async move {
        let mut events = events?;
        let Ok((event, last)) = events.next().await?;
        Some((Ok(event), if last { None } else { Some(events) }))
    })
}

/// What to say about a change: `None` inside is a deletion, outside the end of time. Each event says whether it is the
/// last.
fn told(
    last: &mut Option<Environment>,
    change: Option<Option<EphemeralEnvironment>>,
) -> (Vec<(Event, bool)>, bool) {
    let end =
        |reason: &str| (Event::default().event("end").data(json!({"reason": reason}).to_string()), true);
    let environment = match change {
        None => return (vec![end("again")], true),
        Some(None) => return (vec![end("gone")], true),
        Some(Some(environment)) => environment,
    };
    let shown = Environment::from(&environment);
    let mut events = Vec::new();
    if last.as_ref() != Some(&shown) {
        let data = serde_json::to_string(&shown).unwrap_or_default();
        events.push((Event::default().event("environment").data(data), false));
        *last = Some(shown);
    }
    let reason = match phase(&environment) {
        // A component that is unavailable just now is waited for.
        Phase::Ready if is_ready(&environment) => Some("ready"),
        Phase::Failed => Some("failed"),
        Phase::Pending | Phase::Deploying | Phase::Ready | Phase::Terminating => None,
    };
    events.extend(reason.map(end));
    (events, reason.is_some())
}

fn is_ready(environment: &EphemeralEnvironment) -> bool {
    let mut conditions = environment.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
