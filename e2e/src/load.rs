//! Load over HTTP, and what became of it: so many clients, each with its next request when its last one is answered, or
//! a rate that does not wait for anybody. A report names no address and no token.

pub mod config;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Request;
use kube::client::Body;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::measure::figures::Sample;
use crate::petri::Error;

/// How many clients ask, how often, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Requests under way at once, at most.
    pub clients: usize,
    /// Requests that are offered in a second; absent, each client offers the next when it has its answer. What is
    /// offered while all clients wait is dropped: a slow server is not spared.
    pub rate: Option<u32>,
    /// For how long.
    pub time: Duration,
}

/// What became of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Requests that the plan had; without a rate, those that were offered.
    pub planned: u64,
    /// Requests whose time came.
    pub offered: u64,
    /// Requests that were sent.
    pub started: u64,
    /// Requests that found no client free.
    pub dropped: u64,
    /// Requests whose time did not come before the end.
    pub not_offered: u64,
    /// Requests that the end cut off.
    pub cut_off: u64,
    /// Answers by code.
    pub codes: BTreeMap<u16, u64>,
    /// Answers 200.
    pub healthy: u64,
    /// Answers 4xx: the server works, and says no; nobody was served by it.
    pub refused: u64,
    /// Answers 5xx, and no answers.
    pub failed: u64,
    /// How long it took.
    pub seconds: f64,
    /// Answers in a second.
    pub per_second: f64,
    /// Time to the end of an answer, in milliseconds: half of the answers are as fast.
    pub p50_ms: f64,
    /// 99 of 100 are.
    pub p99_ms: f64,
    /// The slowest.
    pub max_ms: f64,
}

/// A code, or none, after this time.
type Answer = (Option<u16>, Duration);

/// Runs a plan to its end, or until `stop`, which cuts off what is under way. `ask` makes the request of a number.
pub async fn run<F, A>(plan: Plan, stop: impl Future<Output = ()>, ask: F) -> Report
where
    F: Fn(u64) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Option<u16>> + Send + 'static,
{
    let begun = Instant::now();
    let mut tally = Tally::default();
    match plan.rate {
        Some(rate) => at_rate(plan, rate, stop, &ask, &mut tally).await,
        None => one_by_one(plan, begun + plan.time, stop, ask, &mut tally).await,
    }
    tally.report(begun.elapsed())
}

/// Sends a request as `client` does, and returns the code when the whole answer is there. No redirect is followed.
pub async fn send(client: &kube::Client, request: Request<Vec<u8>>) -> Option<u16> {
    let (head, body) = request.into_parts();
    let answer = client.send(Request::from_parts(head, Body::from(body))).await.ok()?;
    let code = answer.status().as_u16();
    answer.into_body().collect_bytes().await.ok()?;
    Some(code)
}

/// Makes a client of a server, which repeats nothing by itself.
///
/// # Errors
/// The address is none.
pub fn client(url: &str, token: &str) -> Result<kube::Client, Error> {
    let uri = url.parse().map_err(|_| Error::Wrong("the server's address is none".to_owned()))?;
    let mut config = kube::Config::new(uri);
    config.default_retry = false;
    config.read_timeout = Some(Duration::from_secs(30));
    config.auth_info.token = Some(token.to_owned().into());
    Ok(kube::Client::try_from(config)?)
}

async fn timed<A: Future<Output = Option<u16>>>(ask: A) -> Answer {
    let begun = Instant::now();
    (ask.await, begun.elapsed())
}

async fn one_by_one<F, A>(plan: Plan, end: Instant, stop: impl Future<Output = ()>, ask: F, tally: &mut Tally)
where
    F: Fn(u64) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Option<u16>> + Send + 'static,
{
    let number = Arc::new(AtomicU64::new(0));
    let (answered, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let mut clients = JoinSet::new();
    for _ in 0..plan.clients {
        let (number, ask, answered) = (Arc::clone(&number), ask.clone(), answered.clone());
        clients.spawn(async move {
            while Instant::now() < end {
                let answer = timed(ask(number.fetch_add(1, Ordering::SeqCst))).await;
                if answered.send(answer).is_err() {
                    return;
                }
            }
        });
    }
    drop(answered);
    let all = async { while clients.join_next().await.is_some() {} };
    tokio::select! {
        () = all => {}
        () = stop => {}
    }
    clients.abort_all();
    while clients.join_next().await.is_some() {}
    while let Ok(answer) = answers.try_recv() {
        tally.add(answer);
    }
    tally.started = number.load(Ordering::SeqCst);
    tally.offered = tally.started;
    tally.planned = tally.started;
}

async fn at_rate<F, A>(plan: Plan, rate: u32, stop: impl Future<Output = ()>, ask: &F, tally: &mut Tally)
where
    F: Fn(u64) -> A,
    A: Future<Output = Option<u16>> + Send + 'static,
{
    tally.planned = u64::from(rate) * plan.time.as_secs();
    let free = Arc::new(Semaphore::new(plan.clients));
    let mut ticks = interval(Duration::from_secs(1) / rate.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut under_way = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    while tally.offered < tally.planned {
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(answer) = under_way.join_next(), if !under_way.is_empty() => tally.join(answer),
            _ = ticks.tick() => {
                let number = tally.offered;
                tally.offered += 1;
                let Ok(place) = Arc::clone(&free).try_acquire_owned() else {
                    tally.dropped += 1;
                    continue;
                };
                tally.started += 1;
                let asking = timed(ask(number));
                under_way.spawn(async move {
                    let _place = place;
                    asking.await
                });
            }
        }
    }
    if tally.offered == tally.planned {
        let rest = async {
            while let Some(answer) = under_way.join_next().await {
                tally.join(answer);
            }
        };
        tokio::select! {
            () = rest => {}
            () = &mut stop => {}
        }
    }
    under_way.abort_all();
    while let Some(answer) = under_way.join_next().await {
        tally.join(answer);
    }
}

#[derive(Default)]
struct Tally {
    planned: u64,
    offered: u64,
    started: u64,
    dropped: u64,
    codes: BTreeMap<u16, u64>,
    unanswered: u64,
    took: Sample,
}

impl Tally {
    fn join(&mut self, answer: Result<Answer, tokio::task::JoinError>) {
        // One that was aborted is in `started` and nowhere else, which is what cut off means.
        if let Ok(answer) = answer {
            self.add(answer);
        }
    }

    fn add(&mut self, (code, took): Answer) {
        let Some(code) = code else {
            self.unanswered += 1;
            return;
        };
        *self.codes.entry(code).or_default() += 1;
        self.took.add(took.as_secs_f64() * 1000.0);
    }

    fn report(self, took: Duration) -> Report {
        let of = |range: std::ops::Range<u16>| self.codes.range(range).map(|(_, count)| count).sum::<u64>();
        let answered = of(0..u16::MAX);
        let seconds = took.as_secs_f64();
        #[expect(clippy::cast_precision_loss)]
        let per_second = answered as f64 / seconds.max(f64::EPSILON);
        let at = |share| if self.took.is_empty() { 0.0 } else { self.took.at(share) };
        Report {
            planned: self.planned,
            offered: self.offered,
            started: self.started,
            dropped: self.dropped,
            not_offered: self.planned - self.offered,
            cut_off: self.started - answered - self.unanswered,
            healthy: of(200..201),
            refused: of(400..500),
            failed: of(500..600) + self.unanswered,
            seconds,
            per_second,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
            codes: self.codes,
        }
    }
}
