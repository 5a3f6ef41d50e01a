//! The Lease loop against a small API server that compares resourceVersions as the real one does.
use super::*;
use axum::http::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::{task::JoinHandle, time::Instant};
use tower::service_fn;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/petri-system/leases";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Link {
    #[default]
    Up,
    /// Every request fails at once.
    Down,
    /// Requests vanish, no answer ever comes.
    Silent,
    /// Requests are carried out, their answers vanish.
    AnswersLost,
}

#[derive(Debug, Default)]
struct Store {
    lease: Option<Value>,
    version: u64,
    writes: u32,
}

#[derive(Clone, Debug, Default)]
struct Server {
    store: Arc<Mutex<Store>>,
    link: Arc<Mutex<Link>>,
}

impl Server {
    /// The same server over a connection of its own, which can fail for itself.
    fn other_link(&self) -> Self {
        Self { store: Arc::clone(&self.store), link: Arc::default() }
    }

    fn set(&self, link: Link) {
        *self.link.lock().unwrap() = link;
    }

    fn holder(&self) -> String {
        let store = self.store.lock().unwrap();
        store.lease.as_ref().unwrap()["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    fn writes(&self) -> u32 {
        self.store.lock().unwrap().writes
    }

    /// Somebody writes without asking.
    fn overwrite(&self, holder: &str) {
        let mut store = self.store.lock().unwrap();
        store.version += 1;
        let version = store.version.to_string();
        let lease = store.lease.as_mut().unwrap();
        lease["spec"]["holderIdentity"] = json!(holder);
        lease["metadata"]["resourceVersion"] = json!(version);
    }

    fn remove(&self) {
        self.store.lock().unwrap().lease = None;
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let mut store = self.store.lock().unwrap();
        let refusal = |code: u16, reason: &str| {
            (
                code,
                json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}),
            )
        };
        if *method == Method::GET {
            return store.lease.clone().map_or_else(|| refusal(404, "NotFound"), |lease| (200, lease));
        }
        let mut sent: Value = serde_json::from_slice(body).unwrap();
        match (&store.lease, *method == Method::POST) {
            (Some(_), true) => return refusal(409, "AlreadyExists"),
            (None, false) => return refusal(404, "NotFound"),
            (Some(lease), false)
                if lease["metadata"]["resourceVersion"] != sent["metadata"]["resourceVersion"] =>
            {
                return refusal(409, "Conflict");
            }
            _ => {}
        }
        store.version += 1;
        store.writes += 1;
        sent["metadata"]["resourceVersion"] = json!(store.version.to_string());
        store.lease = Some(sent.clone());
        (200, sent)
    }

    async fn handle(self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        let (head, body) = request.into_parts();
        assert!(head.uri.path().starts_with(PATH), "{}", head.uri);
        let link = *self.link.lock().unwrap();
        match link {
            Link::Down => return Err(std::io::Error::other("connection refused")),
            Link::Silent => std::future::pending().await,
            Link::Up | Link::AnswersLost => {}
        }
        let (code, answer) = self.answer(&head.method, &body.collect_bytes().await.unwrap());
        if link == Link::AnswersLost && head.method != Method::GET {
            std::future::pending::<()>().await;
        }
        Ok(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap())
    }

    fn candidate(&self, identity: &str) -> Candidate {
        let server = self.clone();
        let service = service_fn(move |request| server.clone().handle(request));
        let api = Api::namespaced(Client::new(service, "petri-system"), "petri-system");
        let terms = Terms {
            name: "petri-operator".to_owned(),
            identity: identity.to_owned(),
            duration: secs(15),
            renew: secs(2),
            margin: secs(5),
        };
        let elector = Elector::new(api, terms, Clock);
        let leadership = elector.leadership();
        let (release, released) = oneshot::channel();
        Candidate { leadership, release, task: tokio::spawn(elector.run(released)) }
    }
}

struct Candidate {
    leadership: Leadership,
    release: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn near(took: Duration, expected: Duration) -> bool {
    took >= expected && took < expected + secs(2)
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_there_is_made_and_kept() {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    assert_eq!(server.holder(), "a");
    for _ in 0..120 {
        sleep(secs(1)).await;
        assert!(a.leadership.is_leading());
    }
    // One write every two seconds, not more.
    assert!((55..=65).contains(&server.writes()), "{}", server.writes());
}

#[tokio::test(start_paused = true)]
async fn a_second_candidate_waits_while_the_first_renews() {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    let b = server.other_link().candidate("b");
    sleep(secs(300)).await;
    assert!(a.leadership.is_leading() && !b.leadership.is_leading());
}

/// Cuts the holder off in one way and checks that it stops before the other can start.
async fn check_cut_off(link: Link) {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    let b = server.other_link().candidate("b");
    sleep(secs(20)).await;
    server.set(link);
    let cut = Instant::now();
    a.leadership.lost().await;
    let stopped = cut.elapsed();
    assert!(!a.leadership.is_leading() && !b.leadership.is_leading(), "{link:?}: {stopped:?}");
    assert!(stopped <= secs(10), "{link:?}: {stopped:?}");
    b.leadership.acquired().await;
    let started = cut.elapsed();
    // The margin lies between them; what is left of the last pause between renewals makes it a little less.
    assert!(started - stopped >= secs(3), "{link:?}: stopped after {stopped:?}, successor after {started:?}");
    assert!(started <= secs(18), "{link:?}: {started:?}");
    // The former holder comes back and stays out.
    server.set(Link::Up);
    sleep(secs(60)).await;
    assert!(!a.leadership.is_leading() && b.leadership.is_leading(), "{link:?}");
    assert!(a.task.is_finished(), "{link:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_renewals_fail_stops_before_another_can_start() {
    check_cut_off(Link::Down).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_renewals_vanish_stops_before_another_can_start() {
    check_cut_off(Link::Silent).await;
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_nothing() {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    for link in [Link::Down, Link::Silent, Link::AnswersLost] {
        sleep(secs(20)).await;
        server.set(link);
        sleep(secs(6)).await;
        assert!(a.leadership.is_leading(), "{link:?}");
        server.set(Link::Up);
        sleep(secs(20)).await;
        assert!(a.leadership.is_leading(), "{link:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stolen_lease_ends_leadership_at_the_next_renewal_and_names_the_thief() {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    server.overwrite("thief");
    let stolen = Instant::now();
    let why = a.leadership.lost().await;
    assert!(why.contains("thief"), "{why}");
    assert!(stolen.elapsed() <= secs(3), "{:?}", stolen.elapsed());
    assert_eq!(server.holder(), "thief");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_ends_leadership() {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    server.remove();
    a.leadership.lost().await;
    a.task.await.unwrap();
    assert!(!a.leadership.is_leading());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_past_its_lease_does_not_lead_at_its_first_look() {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    sleep(secs(10)).await;
    let writes = server.writes();
    // Time jumps while nothing of the process runs.
    tokio::time::advance(secs(30)).await;
    assert!(!a.leadership.is_leading());
    a.task.await.unwrap();
    assert_eq!(server.writes(), writes, "it must not renew what it has lost");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_within_two_seconds() {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    let b = server.other_link().candidate("b");
    sleep(secs(30)).await;
    let told = Instant::now();
    a.release.send(()).unwrap();
    a.task.await.unwrap();
    assert!(!a.leadership.is_leading());
    b.leadership.acquired().await;
    assert!(told.elapsed() < secs(2), "{:?}", told.elapsed());
    assert_eq!(server.holder(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_ends_leaves_the_holder_alone() {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    let b = server.other_link().candidate("b");
    sleep(secs(5)).await;
    b.release.send(()).unwrap();
    b.task.await.unwrap();
    assert_eq!(server.holder(), "a");
    sleep(secs(60)).await;
    assert!(a.leadership.is_leading());
}

#[tokio::test(start_paused = true)]
async fn an_end_without_a_server_does_not_take_for_ever() {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    server.set(Link::Silent);
    let told = Instant::now();
    a.release.send(()).unwrap();
    a.task.await.unwrap();
    assert!(told.elapsed() <= secs(2), "{:?}", told.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_killed_holder_is_followed_after_the_whole_duration_and_its_own_pod_at_once() {
    let server = Server::default();
    let a = server.candidate("a");
    a.leadership.acquired().await;
    a.task.abort();
    let killed = Instant::now();
    let b = server.other_link().candidate("b");
    b.leadership.acquired().await;
    assert!(near(killed.elapsed(), secs(15)), "{:?}", killed.elapsed());
    b.task.abort();
    let killed = Instant::now();
    let again = server.other_link().candidate("b");
    again.leadership.acquired().await;
    assert!(killed.elapsed() < secs(1), "{:?}", killed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn of_ten_candidates_at_most_one_leads_at_any_time() {
    let server = Server::default();
    let links: Vec<Server> = (0..10).map(|_| server.other_link()).collect();
    let all: Vec<Candidate> =
        links.iter().enumerate().map(|(n, link)| link.candidate(&n.to_string())).collect();
    let mut led = std::collections::BTreeSet::<usize>::new();
    for tick in 0..3000_u32 {
        sleep(Duration::from_millis(100)).await;
        let leading: Vec<usize> =
            all.iter().enumerate().filter(|(_, it)| it.leadership.is_leading()).map(|(n, _)| n).collect();
        assert!(leading.len() <= 1, "{leading:?} lead at once after {tick} ticks");
        led.extend(&leading);
        // Every 25 s whoever leads is cut off in one of three ways.
        if tick % 250 == 249 {
            let ways = [Link::Down, Link::Silent, Link::AnswersLost];
            leading.iter().for_each(|n| links[*n].set(ways[led.len() % 3]));
        }
    }
    assert!(led.len() >= 5, "{led:?}");
}
