//! What is proven on a real cluster, with Petri running as a Pod from its chart and with its chart's rights.
//!
//! A case is a sentence and a function. They run one after the other on one cluster; each leaves nothing behind.

mod apiserver;
mod audit;
mod bad_input;
mod chart;
mod compat;
mod conformance;
mod faults;
mod forward;
mod furniture;
mod golden;
mod hooks;
mod invariants;
mod kept;
mod kill;
mod life;
mod metrics;
mod missing;
mod refusals;
mod releases;
mod replicas;
mod repository;
mod route;
mod sharing;
mod situations;
mod sources;
mod traces;
mod unruled;
mod written;

pub use faults::faults;
pub use traces::SECRET;

use std::future::Future;
use std::pin::Pin;

use crate::petri::{Error, Petri};

type Run = for<'a> fn(&'a Petri<'a>) -> Pin<Box<dyn Future<Output = Result<String, Error>> + Send + 'a>>;

/// One thing that is proven.
pub struct Case {
    /// What holds, as a sentence.
    pub name: &'static str,
    /// Shows it; returns a short remark on what was seen.
    pub run: Run,
}

macro_rules! case {
    ($name:literal, $run:path) => {
        Case { name: $name, run: |petri| Box::pin($run(petri)) }
    };
}

pub(crate) use case;

/// Returns every case of a healthy cluster, in the order they run.
pub fn all() -> Vec<Case> {
    vec![
        case!("the API server refuses every bad object and takes every good one", refusals::run),
        case!("every rendering of the chart keeps the rules", refusals::chart),
        case!("the API server takes every rendering of the chart", chart::dry_run),
        case!("the operator has the rights of the table and no others", refusals::rights),
        case!("the API server answers as the simulated one does", conformance::run),
        case!("a diamond of four goes from Pending to Ready to gone", life::diamond),
        case!("a changed value is redeployed in place and touches nobody else", life::change),
        case!("an environment expires by itself within five seconds", life::expiry),
        case!("what kubectl prints reads as committed", golden::run),
        case!("an environment tells its story in each situation", situations::run),
        case!("manifests of the Go project apply unchanged and end where they ended", compat::run),
        case!("a missing template is said, and heals when it comes", bad_input::template),
        case!("a missing chart fails at once with its reason", bad_input::chart),
        case!("a value that does not render is said before any Job", bad_input::render),
        case!("a chart that wants more than its namespace is refused by name", bad_input::beyond),
        case!("an image that does not exist is said within thirty seconds", bad_input::image),
        case!(
            "without the schema's rules the operator refuses the same, and what breaks them can be deleted",
            unruled::run
        ),
        case!("a foreign namespace in the way is left alone", bad_input::foreign),
        case!("a namespace deleted by hand is said, and the deletion still ends", bad_input::lost),
        case!("a chart from an HTTP repository deploys, and a missing version is said", repository::run),
        case!("every chart source in every state says its exact reason", sources::run),
        case!("five charts as people write them deploy, are upgraded and leave nothing", written::run),
        case!("the pod of a failed deploy is there until somebody deletes the environment", kept::evidence),
        case!("the claims of a StatefulSet go with the namespace and free their volume", kept::claims),
        case!("a deploy is one trace from its generation to Ready, and no secret is in it", traces::run),
        case!("quota, limits, policy, copied secrets and route stand when it is Ready", furniture::run),
        case!(
            "an HTTPRoute is published when a Gateway took it, and without a Gateway API nothing breaks",
            route::run
        ),
        case!("environments take turns at one PostgreSQL, and all of it goes by one command", sharing::run),
        case!("a Redis that nobody uses goes, and comes back with its secret", sharing::redis::idle),
        case!(
            "a pipeline's token brings an environment up through the API server, and down again",
            apiserver::scenario_240_241_245_248_249_250_from_a_token_to_an_environment_and_back
        ),
        case!(
            "of two API servers one is killed under load, and nothing that was answered is lost",
            replicas::scenario_246_two_replicas_one_killed_under_load_lose_nothing_and_both_serve_again
        ),
        case!("the operator killed after each kind of write ends where it would have", kill::run),
    ]
}

/// Returns the cases about watching and operating Petri: with a real collector, a real Prometheus, and the chart's life.
pub fn operations() -> Vec<Case> {
    vec![
        case!(
            "a deploy is told through a real collector, and one that hangs costs spans alone",
            traces::collected
        ),
        case!("every query of the dashboard has data, and an exemplar leads to a trace", metrics::run),
        case!("a deploy beside two thousand definitions takes hardly longer", kept::crowd),
        case!("each right that is missing is named in readiness, log and condition", missing::acts),
        case!("each right to watch that is missing is named in readiness and log", missing::watches),
        case!("an upgrade of the chart touches no Ready environment", chart::upgrade),
        case!("of two installations side by side one is tested, drained and removed", chart::two),
    ]
}
