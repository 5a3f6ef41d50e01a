//! The lab itself: it comes up, it ends with nothing left, however it ends, and it says at once what died.
//! Each test boots real clusters; run them with `cargo test -p petri-e2e --test lab`.

use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use petri_e2e::lab::{COMPONENTS, Lab, LabError, Options};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A pod of the sandbox's own image: it sleeps.
const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"sleeper"},"spec":{"containers":[
    {"name":"sleeper","image":"docker.io/petri/pause:1","volumeMounts":[{"name":"data","mountPath":"/data"}]}],
    "volumes":[{"name":"data","emptyDir":{"medium":"Memory"}}]}}"#;

async fn run_a_pod(lab: &Lab) {
    let file = std::env::temp_dir().join(format!("petri-pod-{}-{}.json", lab.name(), std::process::id()));
    std::fs::write(&file, POD).unwrap();
    lab.kubectl(&["apply", "-f", file.to_str().unwrap()]).await.unwrap();
    lab.kubectl(&["wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s"]).await.unwrap();
    std::fs::remove_file(file).unwrap();
}

fn assert_nothing_is_left_of(name: &str) {
    assert_eq!(Lab::leftovers(name).unwrap(), Vec::<String>::new());
}

/// The sockets at which a process in the lab's network namespace listens by a path. One outside the
/// lab's own folder is one that two labs would fight for; containerd's shims have names of their own, and
/// the kubelet's socket for device plugins is a constant that only one lab makes at a time.
async fn assert_no_socket_of_the_machine(lab: &Lab) {
    let pid = lab.component_pid("containerd").await.unwrap();
    let sockets = std::fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap();
    let home = lab.kubeconfig().ancestors().nth(2).unwrap();
    let fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = fields
        .filter(|fields| fields.len() == 8 && fields[3] == "00010000")
        .map(|fields| fields[7].to_owned());
    let paths: Vec<String> = listening.filter(|path| path.starts_with('/')).collect();
    assert!(paths.iter().any(|path| path.ends_with("containerd.sock")), "{paths:?}");
    let known = ["/run/containerd/s/", "/var/lib/kubelet/device-plugins/kubelet.sock"];
    let foreign = paths.iter().filter(|path| !known.iter().any(|known| path.starts_with(known)));
    let foreign: Vec<_> = foreign.filter(|path| !std::path::Path::new(path).starts_with(home)).collect();
    assert!(foreign.is_empty(), "{foreign:?} do not lie below {}", home.display());
}

/// Starts `cargo lab up --hold` and returns when it has printed its kubeconfig.
async fn held(name: &str) -> Child {
    let mut child = lab_program(name);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().expect("the lab did not come up");
    assert!(line.starts_with("export KUBECONFIG="), "{line}");
    child
}

fn lab_program(name: &str) -> Child {
    let mut program = Command::new(env!("CARGO_BIN_EXE_lab"));
    program
        .args(["up", "--hold", "--name", name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    program.spawn().unwrap()
}

async fn end(mut child: Child, signal: Signal) -> ExitStatus {
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    child.wait().await.unwrap()
}

#[tokio::test]
async fn a_lab_that_is_ended_leaves_nothing() {
    // On a fresh machine this takes twenty minutes; the bound is for what follows.
    Lab::build().await.unwrap();
    let started = Instant::now();
    let lab = Lab::up(Options::new("t-down")).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(45), "ready after {:?}", started.elapsed());
    run_a_pod(&lab).await;
    let audit = std::fs::read_to_string(lab.audit_log()).unwrap();
    assert!(audit.contains("\"name\":\"sleeper\""), "the audit log does not tell of the pod");
    let here = Lab::leftovers("t-down").unwrap();
    assert!(here.iter().filter(|text| text.starts_with("process")).count() > COMPONENTS.len(), "{here:?}");
    lab.down().await.unwrap();
    assert_nothing_is_left_of("t-down");
}

#[tokio::test]
async fn a_lab_whose_process_was_killed_is_cleaned_away_by_the_next_start() {
    let child = held("t-kill").await;
    let refused = Lab::up(Options::new("t-kill")).await.err();
    assert!(matches!(refused, Some(LabError::InUse { .. })), "{refused:?}");
    end(child, Signal::KILL).await;
    let left = Lab::leftovers("t-kill").unwrap();
    assert!(left.iter().any(|text| text.starts_with("process")), "nothing was left to clean away: {left:?}");
    let lab = Lab::up(Options::new("t-kill")).await.unwrap();
    run_a_pod(&lab).await;
    lab.down().await.unwrap();
    assert_nothing_is_left_of("t-kill");
}

#[tokio::test]
async fn an_interrupt_ends_a_lab_that_is_up_and_one_that_is_coming_up() {
    let child = held("t-int").await;
    assert_eq!(end(child, Signal::INT).await.code(), Some(130));
    assert_nothing_is_left_of("t-int");
    for delay in [100, 250, 500, 1500] {
        let child = lab_program("t-int");
        tokio::time::sleep(Duration::from_millis(delay)).await;
        assert_eq!(end(child, Signal::INT).await.code(), Some(130), "interrupted after {delay} ms");
        assert_nothing_is_left_of("t-int");
    }
}

#[tokio::test]
async fn a_panic_ends_the_lab() {
    let task = tokio::spawn(async {
        let lab = Lab::up(Options::new("t-panic")).await.unwrap();
        assert_eq!(lab.name(), "a name it does not have");
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_nothing_is_left_of("t-panic");
}

#[tokio::test]
async fn a_component_that_dies_is_named_at_once_with_its_last_words() {
    let lab = Lab::up(Options::new("t-death")).await.unwrap();
    lab.stop_component("kube-scheduler").await.unwrap();
    lab.start_component("kube-scheduler").await.unwrap();
    let quiet = tokio::time::timeout(Duration::from_secs(1), lab.died()).await;
    assert!(quiet.is_err(), "a component that was stopped on purpose counts as dead: {quiet:?}");
    let pid = lab.component_pid("kube-proxy").await.unwrap();
    let killed = Instant::now();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let forever = lab.watched(std::future::pending::<Result<(), LabError>>()).await;
    assert!(killed.elapsed() < Duration::from_secs(1), "said after {:?}", killed.elapsed());
    let text = forever.unwrap_err().to_string();
    assert!(text.starts_with("kube-proxy died (signal: 9"), "{text}");
    assert!(text.lines().count() > 1, "no log in: {text}");
    lab.down().await.unwrap();
    assert_nothing_is_left_of("t-death");
}

#[tokio::test]
async fn a_start_that_cannot_succeed_ends_at_once_with_the_cause() {
    let mut child = lab_program("t-boot");
    let server = loop {
        let running = Lab::list().into_iter().find(|lab| lab.name == "t-boot").map(|lab| lab.running);
        if running.is_some_and(|running| running.contains(&"kube-apiserver")) {
            let file = Lab::logs_of("t-boot").unwrap().join("kube-apiserver.pid");
            let text = std::fs::read_to_string(file).unwrap();
            break text.split(' ').next().unwrap().parse().unwrap();
        }
        assert!(child.try_wait().unwrap().is_none(), "the lab ended by itself");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let killed = Instant::now();
    kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert!(killed.elapsed() < Duration::from_secs(5), "ended after {:?}", killed.elapsed());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("kube-apiserver died (signal: 9"), "{said}");
    assert_nothing_is_left_of("t-boot");
}

#[tokio::test]
async fn two_labs_side_by_side_do_not_touch_each_other() {
    let (one, other) = tokio::join!(Lab::up(Options::new("t-one")), Lab::up(Options::new("t-other").keep()));
    let (one, other) = (one.unwrap(), other.unwrap());
    run_a_pod(&one).await;
    run_a_pod(&other).await;
    assert_no_socket_of_the_machine(&one).await;
    one.down().await.unwrap();
    assert_nothing_is_left_of("t-one");
    drop(other);
    let other = Lab::attach("t-other").await.unwrap();
    other.kubectl(&["wait", "--for=condition=Ready", "pod/sleeper", "--timeout=5s"]).await.unwrap();
    other.stop_component("kube-apiserver").await.unwrap();
    assert!(other.kubectl(&["get", "nodes", "--request-timeout=2s"]).await.is_err());
    for name in ["containerd", "kubelet"] {
        other.stop_component(name).await.unwrap();
        other.start_component(name).await.unwrap();
    }
    other.start_component("kube-apiserver").await.unwrap();
    let asked = Instant::now();
    while other.kubectl(&["delete", "pod", "sleeper", "--timeout=20s", "--grace-period=1"]).await.is_err() {
        assert!(asked.elapsed() < Duration::from_secs(60), "the cluster does not recover");
    }
    run_a_pod(&other).await;
    Lab::down_named("t-other").await.unwrap();
    assert_nothing_is_left_of("t-other");
}
