use super::*;
use crate::{
    clock::Clock,
    controller::{Guarded, queue::queue},
};
use kube::runtime::watcher::Event;
use petri_crds::EphemeralEnvironment;
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

/// Takes a while for each key, and notes what it did.
#[derive(Default)]
struct Slow {
    takes: Duration,
    begun: Mutex<Vec<Key>>,
    finished: Mutex<Vec<Key>>,
    running: AtomicUsize,
    most: AtomicUsize,
    answer: Mutex<Requeue>,
    panics: bool,
}

impl Slow {
    fn begun(&self) -> usize {
        self.begun.lock().unwrap().len()
    }

    fn finished(&self) -> usize {
        self.finished.lock().unwrap().len()
    }
}

impl Reconciler for Slow {
    async fn reconcile(&self, key: &Key) -> Requeue {
        self.begun.lock().unwrap().push(key.clone());
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        assert!(!self.panics, "as it was told");
        sleep(self.takes).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.finished.lock().unwrap().push(key.clone());
        self.answer.lock().unwrap().clone()
    }
}

struct Running {
    slow: Arc<Slow>,
    caches: Arc<Caches>,
    wakes: Wakes,
    leadership: Leadership,
    metrics: Metrics,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Ended>,
}

fn start(slow: Slow, leadership: Leadership, workers: usize) -> Running {
    let (wakes, queue) = queue(workers, Clock);
    let (slow, caches, metrics) = (Arc::new(slow), Arc::new(Caches::new("petri-system")), Metrics::default());
    let (stop, stopped) = oneshot::channel();
    let it = Loop {
        reconciler: Arc::clone(&slow),
        caches: Arc::clone(&caches),
        wakes: wakes.clone(),
        queue,
        leadership: leadership.clone(),
        metrics: metrics.clone(),
        resync: Duration::from_secs(600),
    };
    let ended = tokio::spawn(it.run(async { drop(stopped.await) }));
    Running { slow, caches, wakes, leadership, metrics, stop, ended }
}

/// Ends the first lists; `environments` are in them.
fn sync(caches: &Caches, environments: &[&str]) {
    for name in environments {
        let environment: Guarded<EphemeralEnvironment> = serde_json::from_value(serde_json::json!({
            "apiVersion": "core.petri.run/v1alpha1", "kind": "EphemeralEnvironment",
            "metadata": {"namespace": "petri-system", "name": name, "uid": name}, "spec": {"template": "t"},
        }))
        .unwrap();
        caches.environments.apply(Event::InitApply(environment.into()));
    }
    caches.sync_all();
}

fn leading(secs: u64) -> Leadership {
    let leadership = Leadership::waiting(Clock);
    leadership.lead(Instant::now() + Duration::from_secs(secs));
    leadership
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_the_caches_are_synced_and_then_everything_known_does() {
    let it = start(Slow::default(), Leadership::always(Clock), 4);
    it.wakes.now(Key::environment("a"));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(it.slow.begun(), 0);
    sync(&it.caches, &["a", "b"]);
    sleep(Duration::from_secs(1)).await;
    let mut begun = it.slow.begun.lock().unwrap().clone();
    begun.sort();
    assert_eq!(begun, [Key::environment("a"), Key::environment("b")]);
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_this_process_leads() {
    let it = start(Slow::default(), Leadership::waiting(Clock), 4);
    sync(&it.caches, &["a"]);
    it.wakes.now(Key::environment("a"));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(it.slow.begun(), 0);
    it.leadership.lead(Instant::now() + Duration::from_secs(10));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(it.slow.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn loss_of_leadership_cuts_off_what_runs_at_the_deadline() {
    let it = start(Slow { takes: Duration::from_secs(60), ..Slow::default() }, leading(10), 4);
    sync(&it.caches, &["a", "b"]);
    let begin = Instant::now();
    let ended = it.ended.await.unwrap();
    assert!(matches!(ended, Ended::LeadershipLost(_)), "{ended:?}");
    assert_eq!((begin.elapsed().as_secs(), it.slow.begun()), (10, 2));
    sleep(Duration::from_secs(120)).await;
    assert_eq!(it.slow.finished(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_what_runs_finish_and_takes_nothing_new() {
    let it = start(Slow { takes: Duration::from_secs(3), ..Slow::default() }, Leadership::always(Clock), 1);
    sync(&it.caches, &["a", "b", "c"]);
    sleep(Duration::from_secs(1)).await;
    it.stop.send(()).unwrap();
    assert_eq!(it.ended.await.unwrap(), Ended::Stopped);
    assert_eq!((it.slow.begun(), it.slow.finished()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_ever() {
    let it = start(Slow { takes: Duration::from_secs(200), ..Slow::default() }, Leadership::always(Clock), 1);
    sync(&it.caches, &["a"]);
    sleep(Duration::from_secs(1)).await;
    let told = Instant::now();
    it.stop.send(()).unwrap();
    assert_eq!(it.ended.await.unwrap(), Ended::Stopped);
    assert_eq!(told.elapsed().as_secs(), DRAIN_MAX.as_secs());
    assert_eq!(it.slow.finished(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_more_run_at_once_than_there_are_workers() {
    let it = start(Slow { takes: Duration::from_secs(1), ..Slow::default() }, Leadership::always(Clock), 2);
    sync(&it.caches, &["a", "b", "c", "d", "e"]);
    sleep(Duration::from_secs(20)).await;
    assert_eq!((it.slow.finished(), it.slow.most.load(Ordering::SeqCst)), (5, 2));
}

#[tokio::test(start_paused = true)]
async fn a_settled_object_is_looked_at_again_once_a_resync_and_work_found_then_is_counted() {
    let it = start(Slow::default(), Leadership::always(Clock), 4);
    sync(&it.caches, &["a"]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(it.slow.begun(), 1);
    sleep(Duration::from_secs(610)).await;
    assert_eq!((it.slow.begun(), it.metrics.resync_found_work.get()), (2, 0));
    *it.slow.answer.lock().unwrap() = Requeue::settled().worked();
    sleep(Duration::from_secs(660)).await;
    assert_eq!((it.slow.begun(), it.metrics.resync_found_work.get()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_requeue_is_kept_and_an_object_that_is_gone_is_forgotten() {
    let slow = Slow { answer: Mutex::new(Requeue::after(Duration::from_secs(30))), ..Slow::default() };
    let it = start(slow, Leadership::always(Clock), 4);
    sync(&it.caches, &["a"]);
    sleep(Duration::from_secs(45)).await;
    assert_eq!(it.slow.begun(), 2);
    *it.slow.answer.lock().unwrap() = Requeue::gone();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(it.slow.begun(), 3);
    // The resync of the earlier runs is still to come; it finds nothing and is the last.
    sleep(Duration::from_secs(6000)).await;
    assert_eq!(it.slow.begun(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_panics_is_counted_and_comes_again() {
    let it = start(Slow { panics: true, ..Slow::default() }, Leadership::always(Clock), 4);
    sync(&it.caches, &["a"]);
    sleep(FAULT_PAUSE + Duration::from_secs(5)).await;
    let labels = ErrorLabels { controller: "environment", class: "panic" };
    assert_eq!((it.slow.begun(), it.metrics.reconcile_errors.get_or_create(&labels).get()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_hangs_is_cut_off_and_comes_again() {
    let it = start(Slow { takes: RECONCILE_MAX * 2, ..Slow::default() }, Leadership::always(Clock), 4);
    sync(&it.caches, &["a"]);
    sleep(RECONCILE_MAX + FAULT_PAUSE + Duration::from_secs(5)).await;
    assert_eq!((it.slow.begun(), it.slow.finished()), (2, 0));
}

#[test]
fn resyncs_are_spread_by_ten_per_cent_to_both_sides() {
    let all: Vec<u64> = (0..200)
        .map(|n| spread(Duration::from_secs(1000), &Key::environment(n.to_string())).as_secs())
        .collect();
    assert!(all.iter().all(|secs| (900..=1100).contains(secs)), "{all:?}");
    assert!(all.iter().any(|secs| *secs < 930) && all.iter().any(|secs| *secs > 1070), "{all:?}");
}
