//! What Petri asks of the API server and of the machine.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, DeleteParams, PostParams};

use super::figures::{note, say};
use super::process::{Memory, Process};
use super::shape::{DIAMOND, ONE, Shape};
use super::{counted, create, delete, names, ready, restart, say_counts, trail};
use crate::petri::{Error, Petri};

/// Lives that the CPU of one is taken from: the kernel counts hundredths of a second.
const LIVES: usize = 10;
/// Environments at which the memory is looked at.
const READY: [usize; 2] = [30, 100];
/// Secrets of somebody else.
const FOREIGN: usize = 200;
const FOREIGN_BYTES: usize = 100_000;
const FOREIGN_NAMESPACE: &str = "foreign";
/// After this time nothing is under way any more.
const QUIET: Duration = Duration::from_secs(8);
/// Creations under way at once.
const AT_ONCE: usize = 10;

/// Counts requests of a life, then looks at the memory of a fresh operator as environments come.
pub async fn run(petri: &Petri<'_>) -> Result<(), Error> {
    for shape in [ONE, DIAMOND] {
        shape.apply(petri).await?;
        // The verdict on the template is not part of a life.
        tokio::time::sleep(Duration::from_secs(2)).await;
        one_life(petri, shape).await?;
    }
    cpu(petri).await?;
    memory(petri).await
}

async fn one_life(petri: &Petri<'_>, shape: Shape) -> Result<(), Error> {
    let (names, trail) = (names("cost-", 1), trail(petri)?);
    create(petri, &names, shape).await?;
    ready(petri, &names).await?;
    delete(petri, &names).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let entries = trail.entries()?;
    let beside = |resource: &str| matches!(resource, "leases" | "events");
    let writes = entries.iter().filter(|entry| entry.is_write() && !beside(&entry.resource()));
    let events = entries.iter().filter(|entry| entry.verb == "create" && entry.resource() == "events");
    let reads = entries.iter().filter(|entry| matches!(entry.verb.as_str(), "get" | "list"));
    let reads = reads.filter(|entry| !beside(&entry.resource()));
    let (writes, events, reads) = (counted(writes), counted(events), counted(reads));
    let refused = entries.iter().filter(|entry| entry.is_write() && !entry.is_taken());
    let name = format!("cost_{}", shape.name);
    say(format!("{name}_writes_count"), writes.values().sum::<usize>());
    say_counts("  of these", &writes);
    say(
        format!("{name}_writes_that_change_nothing_count"),
        entries.iter().filter(|e| e.changes_nothing()).count(),
    );
    say(format!("{name}_writes_refused_count"), counted(refused).values().sum::<usize>());
    say(format!("{name}_events_count"), events.values().sum::<usize>());
    say(format!("{name}_reads_count"), reads.values().sum::<usize>());
    say_counts("  of these", &reads);
    Ok(())
}

async fn cpu(petri: &Petri<'_>) -> Result<(), Error> {
    let process = Process::operator(petri.lab)?;
    let begin = process.cpu_secs()?;
    for name in names("cpu-", LIVES) {
        create(petri, std::slice::from_ref(&name), ONE).await?;
        ready(petri, std::slice::from_ref(&name)).await?;
        delete(petri, std::slice::from_ref(&name)).await?;
    }
    #[expect(clippy::cast_precision_loss)]
    let each = (process.cpu_secs()? - begin) / LIVES as f64;
    say("cost_one_operator_cpu_each_life_s", format!("{each:.3}"));
    Ok(())
}

async fn memory(petri: &Petri<'_>) -> Result<(), Error> {
    restart(petri).await?;
    let process = Process::operator(petri.lab)?;
    let at = async |label: &str| {
        tokio::time::sleep(QUIET).await;
        let memory = process.memory()?;
        say(format!("cost_operator_rss_anon_at_{label}_kib"), memory.anonymous);
        say(format!("cost_operator_rss_at_{label}_kib"), memory.resident);
        Ok::<Memory, Error>(memory)
    };
    let empty = at("0_ready").await?;
    let (mut all, mut full) = (Vec::new(), empty);
    for count in READY {
        let more: Vec<String> = names("memory-", count).split_off(all.len());
        create(petri, &more, ONE).await?;
        ready(petri, &more).await?;
        all.extend(more);
        full = at(&format!("{count}_ready")).await?;
    }
    #[expect(clippy::cast_precision_loss)]
    let each = (full.anonymous as f64 - empty.anonymous as f64) / all.len() as f64;
    say("cost_operator_rss_anon_growth_each_environment_kib", format!("{each:.1}"));
    foreign(petri).await?;
    let foreign = at("100_ready_and_200_foreign_secrets").await?;
    say(
        "cost_operator_rss_anon_growth_from_foreign_secrets_kib",
        foreign.anonymous.saturating_sub(full.anonymous),
    );
    note("the foreign Secrets hold 100 kB each and carry no label");
    let namespaces: Api<Namespace> = Api::all(petri.lab.client());
    namespaces.delete(FOREIGN_NAMESPACE, &DeleteParams::default()).await?;
    delete(petri, &all).await?;
    at("0_ready_after_100").await?;
    Ok(())
}

async fn foreign(petri: &Petri<'_>) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(petri.lab.client());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(FOREIGN_NAMESPACE.to_owned());
    namespaces.create(&PostParams::default(), &namespace).await?;
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), FOREIGN_NAMESPACE);
    let one = |number: usize| {
        let secrets = secrets.clone();
        async move {
            let mut secret = Secret::default();
            secret.metadata.name = Some(format!("foreign-{number}"));
            secret.data = Some([("blob".to_owned(), ByteString(vec![7; FOREIGN_BYTES]))].into());
            secrets.create(&PostParams::default(), &secret).await.map(drop)
        }
    };
    stream::iter(0..FOREIGN).map(one).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    Ok(())
}
