//! The run loop: while this process leads, keys from the queue are reconciled.
use crate::{
    controller::{
        Caches, Key, Reconciler, Requeue,
        queue::{Lane, Queue, Wakes},
    },
    leader::Leadership,
    telemetry::metrics::{ErrorLabels, Metrics},
};
use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    task::{Id, JoinError, JoinSet},
    time::{Instant, timeout},
};
use tracing::{debug, error, info, warn};

/// A reconcile that takes longer hangs: every call in it has its own, much shorter limit.
const RECONCILE_MAX: Duration = Duration::from_secs(300);
/// Pause after a reconcile that panicked or hung.
const FAULT_PAUSE: Duration = Duration::from_secs(30);
/// How long running reconciles may go on after the process was told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// How the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As it was told; running reconciles were finished, or cut off after some seconds.
    Stopped,
    /// Leadership was lost: every running reconcile was cut off. The process must end.
    LeadershipLost(String),
}

/// What the loop works with.
pub struct Loop<R> {
    /// Answers keys.
    pub reconciler: Arc<R>,
    /// Must be synced before anything runs.
    pub caches: Arc<Caches>,
    /// Requeues go here.
    pub wakes: Wakes,
    /// Keys come from here.
    pub queue: Queue,
    /// Nothing runs without it.
    pub leadership: Leadership,
    /// Durations, errors and resyncs are counted here.
    pub metrics: Metrics,
    /// Slow look at each object; spread by ten per cent to both sides.
    pub resync: Duration,
}

struct Run {
    key: Key,
    lane: Lane,
    began: Instant,
}

impl<R: Reconciler> Loop<R> {
    /// Waits for caches and leadership, wakes every known object, and reconciles until `stop` or loss of leadership.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Ended {
        let leadership = self.leadership.clone();
        let mut lost = pin!(leadership.lost());
        let mut stop = pin!(stop);
        tokio::select! {
            biased;
            why = &mut lost => return Ended::LeadershipLost(why),
            () = &mut stop => return Ended::Stopped,
            () = async { self.caches.wait_synced().await; leadership.acquired().await } => {}
        }
        self.wakes.open(|| self.caches.at_start());
        info!("caches are synced and this process leads: working");
        let mut tasks = JoinSet::new();
        let mut runs = HashMap::new();
        let outcome = tokio::select! {
            biased;
            why = &mut lost => Ended::LeadershipLost(why),
            () = &mut stop => Ended::Stopped,
            () = self.work(&mut tasks, &mut runs) => Ended::Stopped,
        };
        if outcome == Ended::Stopped {
            info!(running = tasks.len(), "stopping: no more keys are taken");
            let drained = async { while tasks.join_next().await.is_some() {} };
            tokio::select! {
                biased;
                why = &mut lost => return Ended::LeadershipLost(why),
                done = timeout(DRAIN_MAX, drained) => if done.is_err() { warn!("running reconciles were cut off") },
            }
        }
        // What still runs is cut off here: tasks end with the set.
        outcome
    }

    async fn work(&mut self, tasks: &mut JoinSet<Requeue>, runs: &mut HashMap<Id, Run>) {
        loop {
            tokio::select! {
                Some(joined) = tasks.join_next_with_id() => self.settle(joined, runs),
                (key, lane) = self.queue.next() => {
                    let reconciler = Arc::clone(&self.reconciler);
                    let run = Run { key: key.clone(), lane, began: Instant::now() };
                    let task = tasks.spawn(async move {
                        let limited = timeout(RECONCILE_MAX, reconciler.reconcile(&key)).await;
                        limited.unwrap_or_else(|_| Requeue::failed("timeout", FAULT_PAUSE))
                    });
                    runs.insert(task.id(), run);
                }
            }
        }
    }

    fn settle(&mut self, joined: Result<(Id, Requeue), JoinError>, runs: &mut HashMap<Id, Run>) {
        let (id, requeue) = joined.unwrap_or_else(|fault| {
            error!(%fault, "a reconcile panicked");
            (fault.id(), Requeue::failed("panic", FAULT_PAUSE))
        });
        let Some(Run { key, lane, began }) = runs.remove(&id) else { return };
        self.queue.done(&key);
        self.count(&key, lane, began, &requeue);
        if requeue.gone {
            return;
        }
        if let Some(after) = requeue.after {
            self.wakes.after(key.clone(), after);
        }
        let resync = spread(self.resync, &key);
        self.wakes.send(Lane::Resync, key, resync);
    }

    fn count(&self, key: &Key, lane: Lane, began: Instant, requeue: &Requeue) {
        let controller = key.kind.as_str();
        let took = began.elapsed();
        self.metrics.reconciled(controller, took, requeue.trace);
        if let Some(class) = requeue.error {
            self.metrics.reconcile_errors.get_or_create(&ErrorLabels { controller, class }).inc();
        }
        if lane == Lane::Resync && requeue.worked {
            self.metrics.resync_found_work.inc();
            warn!(%key, "the slow resync found work that no event had announced");
        }
        debug!(%key, ?lane, ?took, ?requeue, "reconciled");
    }
}

/// Ninety to a hundred and ten per cent, by key: objects that began together must not stay together.
fn spread(resync: Duration, key: &Key) -> Duration {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
    let share = u32::try_from(hash % 201).unwrap_or_default();
    resync.saturating_mul(900 + share) / 1000
}

#[cfg(test)]
mod tests;
