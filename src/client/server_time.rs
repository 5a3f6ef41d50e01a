//! Reads the API server's clock off its answers: each bears a `Date` (RFC 9110, 6.6.1).
use super::answers::{Heard, Listener};
use crate::clock::ServerClock;
use axum::http::{HeaderMap, Request, header::DATE};
use jiff::{Timestamp, fmt::rfc2822};
use tokio::time::Instant;
use tracing::warn;

/// Sets a [`ServerClock`] by the answers.
#[derive(Clone, Debug)]
pub struct ReadServerTime(pub ServerClock);

impl Listener for ReadServerTime {
    /// When it was sent.
    type Asked = Instant;

    fn asked<A>(&self, _: &Request<A>) -> Instant {
        Instant::now()
    }

    fn answered(&self, sent: Instant, answer: Option<Heard<'_>>) {
        if let Some(said) = answer.and_then(|answer| date(&answer.head.headers))
            && let Some(ahead) = self.0.heard(said, Timestamp::now(), sent.elapsed())
        {
            let ahead_secs = ahead.as_secs();
            warn!(ahead_secs, "the API server's clock is followed: this machine's differs from it");
        }
    }
}

fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let said = headers.get(DATE)?.to_str().ok()?;
    rfc2822::parse(said).ok().map(|date| date.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answers::Listen;
    use axum::{body::Body, http::Response};
    use jiff::SignedDuration;
    use std::{convert::Infallible, time::Duration};
    use tower::{Layer, Service, service_fn};

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    async fn ask(clock: &ServerClock, date: Option<String>, takes: Duration) {
        let inner = service_fn(move |_: Request<()>| {
            let date = date.clone();
            async move {
                tokio::time::sleep(takes).await;
                let mut answer = Response::new(Body::empty());
                if let Some(date) = date.and_then(|date| date.parse().ok()) {
                    answer.headers_mut().insert(DATE, date);
                }
                Ok::<_, Infallible>(answer)
            }
        });
        Listen(ReadServerTime(clock.clone())).layer(inner).call(Request::new(())).await.unwrap();
    }

    fn as_go_writes(at: Timestamp) -> Option<String> {
        Some(at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
    }

    fn ahead(clock: &ServerClock) -> f64 {
        (clock.wall() - Timestamp::now()).total(jiff::Unit::Second).unwrap()
    }

    #[tokio::test]
    async fn the_servers_hour_is_taken_over_and_given_up_again() {
        let clock = ServerClock::default();
        ask(&clock, as_go_writes(Timestamp::now() + HOUR), Duration::ZERO).await;
        assert!((3_598.0..3_602.0).contains(&ahead(&clock)), "{}", ahead(&clock));
        ask(&clock, as_go_writes(Timestamp::now()), Duration::ZERO).await;
        assert!(ahead(&clock).abs() < 2.0, "{}", ahead(&clock));
    }

    #[tokio::test(start_paused = true)]
    async fn what_its_way_explains_one_without_a_date_and_nonsense_set_nothing() {
        let clock = ServerClock::default();
        let late = Timestamp::now() - SignedDuration::from_secs(6);
        ask(&clock, as_go_writes(late), Duration::from_secs(6)).await;
        ask(&clock, None, Duration::ZERO).await;
        ask(&clock, Some("soon".to_owned()), Duration::ZERO).await;
        assert!(ahead(&clock).abs() < 1.0, "{}", ahead(&clock));
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_is_taken_over_from_a_late_answer_too() {
        let clock = ServerClock::default();
        ask(&clock, as_go_writes(Timestamp::now() - HOUR), Duration::from_secs(6)).await;
        assert!((-3_602.0..-3_598.0).contains(&ahead(&clock)), "{}", ahead(&clock));
    }
}
