//! Traces as they arrive: a real OTLP receiver, the spans as data, and the picture of one trace.

mod collector;
mod path;
mod picture;
mod receiver;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use collector::Collector;
pub use path::{Stretch, critical_path};
pub use picture::{svg, text};
pub use receiver::Receiver;

use crate::petri::Error;

/// How often what was received is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Longer than an exporter waits for a batch to fill.
const SETTLE: Duration = Duration::from_millis(1500);

/// One span as it was received. Ids are hexadecimal; times are nanoseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The program that sent it (`service.name`).
    pub service: String,
    /// Its trace.
    pub trace: String,
    /// Its own id.
    pub id: String,
    /// The span above; empty for a root.
    pub parent: String,
    /// What it is.
    pub name: String,
    /// When it began.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// Why it failed; absent for success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What else is said of it.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// Ids of the spans it is linked to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
}

/// One trace as a tree: places in `spans`, by place of the one above; what hangs on nothing is a root.
pub struct Tree<'a> {
    /// The spans, by beginning.
    pub spans: Vec<&'a Span>,
    children: Vec<Vec<usize>>,
    /// The places of those without a span above.
    pub roots: Vec<usize>,
}

impl<'a> Tree<'a> {
    /// Makes the tree of one trace.
    pub fn of(all: &'a [Span], trace: &str) -> Self {
        let mut spans: Vec<&Span> = all.iter().filter(|span| span.trace == trace).collect();
        spans.sort_by_key(|span| (span.began, std::cmp::Reverse(span.ended)));
        let places: BTreeMap<&str, usize> =
            spans.iter().enumerate().map(|(place, span)| (span.id.as_str(), place)).collect();
        let mut children = vec![Vec::new(); spans.len()];
        let mut roots = Vec::new();
        for (place, span) in spans.iter().enumerate() {
            match places.get(span.parent.as_str()) {
                Some(above) => children[*above].push(place),
                None => roots.push(place),
            }
        }
        Self { spans, children, roots }
    }

    /// Returns the places below one, by beginning.
    pub fn children(&self, place: usize) -> &[usize] {
        self.children.get(place).map_or(&[], Vec::as_slice)
    }

    /// Returns from when until when a span or anything below it lasted: a Job outlives the write that made it.
    pub fn extent(&self, place: usize) -> (u64, u64) {
        let own = (self.spans[place].began, self.spans[place].ended);
        self.children(place).iter().fold(own, |(began, ended), below| {
            let (from, to) = self.extent(*below);
            (began.min(from), ended.max(to))
        })
    }
}

/// Waits until an environment's deploy is told whole, and returns the spans of its trace, its root first.
pub async fn deploy_of(receiver: &Receiver, environment: &str, within: Duration) -> Result<Vec<Span>, Error> {
    let started = Instant::now();
    loop {
        let all = receiver.spans();
        let root = all.iter().find(|span| {
            let name = span.attributes.get("petri.environment.name");
            span.name == "deploy environment" && name.is_some_and(|name| name == environment)
        });
        if let Some(root) = root {
            // What ended with it is on its way in the same batch or the next.
            tokio::time::sleep(SETTLE).await;
            let (mut spans, trace) = (receiver.spans(), root.trace.clone());
            spans.retain(|span| span.trace == trace);
            spans.sort_by_key(|span| (span.id != root.id, span.began));
            return Ok(spans);
        }
        if started.elapsed() > within {
            let last = format!("{} spans", all.len());
            let what = format!("the trace of {environment}");
            return Err(Error::Late { what, seconds: within.as_secs(), last });
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests;
