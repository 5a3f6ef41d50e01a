//! The wake queue: keys that want to be looked at, one run per key at a time, a bounded number at once.
//!
//! Three lanes in order of urgency, each a scheduler of its own, so that neither the look at everything after a
//! start nor the slow resync delays what just happened. A key that is woken while it runs runs once more after.
use crate::{clock::Clock, controller::Key};
use futures::{Stream, channel::mpsc};
use kube::runtime::scheduler::{ScheduleRequest, Scheduler, scheduler};
use std::{
    collections::HashSet,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

/// Why a key is looked at; the order is that of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Something happened to it, or its time has come.
    Event,
    /// Leadership began: everything is looked at once, what rests after what does not.
    Start,
    /// It was not looked at for long.
    Resync,
}

impl Lane {
    const ALL: [Self; 3] = [Self::Event, Self::Start, Self::Resync];
}

type Requests = mpsc::UnboundedReceiver<ScheduleRequest<Key>>;

/// Wakes keys; cheap to clone. Until the queue is opened wakes are dropped: opening it looks at everything.
#[derive(Clone, Debug)]
pub struct Wakes {
    lanes: [mpsc::UnboundedSender<ScheduleRequest<Key>>; 3],
    open: Arc<AtomicBool>,
    clock: Clock,
}

impl Wakes {
    /// Has the key looked at as soon as possible.
    pub fn now(&self, key: Key) {
        self.send(Lane::Event, key, Duration::ZERO);
    }

    /// Has the key looked at after this long at the latest.
    pub fn after(&self, key: Key, after: Duration) {
        self.send(Lane::Event, key, after);
    }

    pub(super) fn send(&self, lane: Lane, key: Key, after: Duration) {
        if !self.open.load(Ordering::Acquire) {
            return;
        }
        let now = self.clock.instant();
        let run_at = now.checked_add(after).unwrap_or(now + FAR);
        let [event, start, resync] = &self.lanes;
        let lane = match lane {
            Lane::Event => event,
            Lane::Start => start,
            Lane::Resync => resync,
        };
        // It fails only when the queue is gone: then nothing runs any more anyway.
        let _ = lane.unbounded_send(ScheduleRequest { message: key, run_at });
    }

    /// Lets wakes through from now on, and wakes `all`, which must be read after the call began.
    pub(super) fn open(&self, all: impl FnOnce() -> Vec<(Lane, Key)>) {
        self.open.store(true, Ordering::Release);
        for (lane, key) in all() {
            self.send(lane, key, Duration::ZERO);
        }
    }
}

/// Stands in for a wait that no clock can hold.
const FAR: Duration = Duration::from_secs(86_400 * 30);

/// Hands out keys.
pub struct Queue {
    lanes: [Pin<Box<Scheduler<Key, Requests>>>; 3],
    running: HashSet<Key>,
    workers: usize,
}

/// Makes a queue that lets `workers` keys run at once.
pub fn queue(workers: usize, clock: Clock) -> (Wakes, Queue) {
    let channels = Lane::ALL.map(|_| mpsc::unbounded());
    let senders = [0, 1, 2].map(|lane: usize| channels[lane].0.clone());
    let lanes = channels.map(|(_, requests)| Box::pin(scheduler(requests)));
    let wakes = Wakes { lanes: senders, open: Arc::default(), clock };
    (wakes, Queue { lanes, running: HashSet::new(), workers: workers.max(1) })
}

impl Queue {
    /// Waits for a key that may run, and counts it as running until [`Queue::done`].
    pub async fn next(&mut self) -> (Key, Lane) {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Key, Lane)> {
        let Self { lanes, running, workers } = self;
        for (scheduler, lane) in lanes.iter_mut().zip(Lane::ALL) {
            let polled = if running.len() >= *workers {
                // Takes wakes in, gives none out.
                Pin::new(&mut scheduler.as_mut().hold()).poll_next(cx)
            } else {
                Pin::new(&mut scheduler.as_mut().hold_unless(|key| !running.contains(key))).poll_next(cx)
            };
            if let Poll::Ready(Some(key)) = polled {
                running.insert(key.clone());
                return Poll::Ready((key, lane));
            }
        }
        Poll::Pending
    }

    /// Ends the run of a key; if it was woken meanwhile it runs again.
    pub fn done(&mut self, key: &Key) {
        self.running.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, poll};
    use tokio::time::Instant;

    fn open(workers: usize) -> (Wakes, Queue) {
        let (wakes, queue) = queue(workers, Clock);
        wakes.open(Vec::new);
        (wakes, queue)
    }

    fn a() -> Key {
        Key::environment("a")
    }

    fn b() -> Key {
        Key::environment("b")
    }

    fn nothing(queue: &mut Queue) -> bool {
        queue.next().now_or_never().is_none()
    }

    #[tokio::test(start_paused = true)]
    async fn many_wakes_of_a_waiting_key_are_one_run() {
        let (wakes, mut queue) = open(4);
        for _ in 0..5 {
            wakes.now(a());
        }
        assert_eq!(queue.next().await, (a(), Lane::Event));
        queue.done(&a());
        assert!(nothing(&mut queue));
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_key_never_runs_twice_at_once_and_runs_once_more_if_woken() {
        let (wakes, mut queue) = open(4);
        wakes.now(a());
        queue.next().await;
        for _ in 0..5 {
            wakes.now(a());
        }
        assert!(nothing(&mut queue));
        queue.done(&a());
        assert_eq!(queue.next().await, (a(), Lane::Event));
        queue.done(&a());
        assert!(nothing(&mut queue));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_keys_run_at_once_than_there_are_workers() {
        let (wakes, mut queue) = open(1);
        wakes.now(a());
        let (first, _) = queue.next().await;
        wakes.now(b());
        assert!(nothing(&mut queue));
        queue.done(&first);
        assert_eq!(queue.next().await, (b(), Lane::Event));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_overtakes_the_start_and_the_start_the_resync() {
        let (wakes, mut queue) = open(1);
        wakes.send(Lane::Resync, Key::environment("r"), Duration::ZERO);
        wakes.open(|| vec![(Lane::Start, a()), (Lane::Start, b())]);
        wakes.now(Key::environment("new"));
        let mut order = Vec::new();
        for _ in 0..4 {
            let (key, lane) = queue.next().await;
            queue.done(&key);
            order.push(lane);
        }
        assert_eq!(order, [Lane::Event, Lane::Start, Lane::Start, Lane::Resync]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_wake_replaces_a_later_one_and_time_brings_the_rest() {
        let (wakes, mut queue) = open(4);
        let begin = Instant::now();
        wakes.after(a(), Duration::from_secs(60));
        wakes.after(a(), Duration::from_secs(10));
        wakes.after(a(), Duration::from_secs(90));
        queue.next().await;
        queue.done(&a());
        let waited = begin.elapsed();
        assert!((10..12).contains(&waited.as_secs()), "{waited:?}");
        assert!(poll!(Box::pin(queue.next())).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn wakes_before_the_opening_are_dropped_and_the_opening_wakes_all() {
        let (wakes, mut queue) = queue(4, Clock);
        wakes.now(a());
        assert!(nothing(&mut queue));
        wakes.open(|| vec![(Lane::Start, b())]);
        assert_eq!(queue.next().await, (b(), Lane::Start));
        queue.done(&b());
        assert!(nothing(&mut queue));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_beyond_every_clock_is_held() {
        let (wakes, mut queue) = open(4);
        wakes.after(a(), Duration::MAX);
        assert!(nothing(&mut queue));
    }
}
