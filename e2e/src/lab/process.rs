//! A running component: started detached, watched for its end, never mistaken for another process.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::command::tail;
use super::component::Component;
use super::home::Home;
use super::{LabError, gobuild};

/// The end of a component that nobody asked for.
#[derive(Debug, Clone)]
pub struct Death {
    /// Which one.
    pub component: &'static str,
    /// How it ended; unknown when another process had started it.
    pub status: Option<ExitStatus>,
    /// The last lines of its log.
    pub tail: String,
}

/// A process that cannot be confused with a later one of the same number: number and start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Process number.
    pub pid: i32,
    /// Clock ticks from the machine's start to the process's.
    started: u64,
}

impl Identity {
    /// The process that has the number `pid` now.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Identity { pid, started: started(&stat)? })
    }

    /// The process a pid file names, if it still runs.
    pub fn recorded(home: &Home, component: &str) -> Option<Self> {
        let text = fs::read_to_string(home.at(&format!("log/{component}.pid"))).ok()?;
        let (pid, started) = text.trim().split_once(' ')?;
        let identity = Identity { pid: pid.parse().ok()?, started: started.parse().ok()? };
        (Identity::of(identity.pid)? == identity).then_some(identity)
    }

    fn record(&self, home: &Home, component: &str) -> Result<(), LabError> {
        Ok(fs::write(home.at(&format!("log/{component}.pid")), format!("{} {}\n", self.pid, self.started))?)
    }

    /// A handle on exactly this process.
    fn open(&self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::NONBLOCK).ok()?;
        // Only now: the handle holds the number, so what is compared is what the handle names.
        (Identity::of(self.pid)? == *self).then_some(handle)
    }
}

/// Field 22 of `/proc/PID/stat`; a zombie has ended. The name in field 2 may hold blanks and brackets.
fn started(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok())?
}

/// A running component.
#[derive(Debug)]
pub struct Process {
    identity: Identity,
    asked_to_end: Arc<AtomicBool>,
    watcher: JoinHandle<()>,
}

impl Process {
    /// Starts `component` inside the lab's network namespace, in a session of its own: neither a Ctrl-C
    /// nor the end of the terminal reaches it. Its end is told to `deaths`.
    pub fn start(
        home: &Home,
        component: &Component,
        deaths: watch::Sender<Option<Death>>,
    ) -> Result<Self, LabError> {
        let log = File::options().create(true).append(true).open(log_path(home, component.name))?;
        let program = gobuild::program(component.name).unwrap_or_else(|| component.name.into());
        // Not `ip netns exec`: that mounts another /sys, and the cgroups are gone.
        let mut command = Command::new("setsid");
        command
            .arg("nsenter")
            .arg(format!("--net={}", home.netns().display()))
            .arg(program)
            .args(&component.args);
        command.current_dir(home.root()).env("PATH", search_path());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let start = |source| LabError::Start { program: component.name.into(), source };
        let child = command.spawn().map_err(start)?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let identity = pid.and_then(Identity::of);
        let Some(identity) = identity else {
            let death =
                Death { component: component.name, status: None, tail: log_tail(home, component.name) };
            return Err(LabError::Died(death));
        };
        identity.record(home, component.name)?;
        Ok(Self::watch(home, component.name, identity, End::Child(child), deaths))
    }

    /// Finds the component `name` that another process had started.
    pub fn attach(home: &Home, name: &'static str, deaths: watch::Sender<Option<Death>>) -> Option<Self> {
        Identity::recorded(home, name)
            .map(|identity| Self::watch(home, name, identity, End::Foreign(identity), deaths))
    }

    fn watch(
        home: &Home,
        component: &'static str,
        identity: Identity,
        end: End,
        deaths: watch::Sender<Option<Death>>,
    ) -> Self {
        let asked_to_end = Arc::new(AtomicBool::new(false));
        let (asked, home) = (Arc::clone(&asked_to_end), home.clone());
        let watcher = tokio::spawn(async move {
            let status = end.wait().await;
            if !asked.load(Ordering::SeqCst) {
                let death = Death { component, status, tail: log_tail(&home, component) };
                // The first death is the cause; what follows is its effect.
                deaths.send_if_modified(|first| first.is_none() && first.replace(death).is_none());
            }
        });
        Process { identity, asked_to_end, watcher }
    }

    /// Its process number.
    pub fn pid(&self) -> i32 {
        self.identity.pid
    }

    /// Ends it and waits until it has ended.
    pub async fn stop(self) {
        self.asked_to_end.store(true, Ordering::SeqCst);
        // SIGKILL: the API server ignores a SIGTERM for a minute.
        kill(self.identity);
        let _ = self.watcher.await;
    }
}

/// How often it is checked that a process lives that another one had started: nothing tells its end, and
/// waiting for a handle on it is not safe code in tokio.
const FOREIGN_CHECK: Duration = Duration::from_millis(200);

/// What tells that a process has ended.
enum End {
    Child(Child),
    Foreign(Identity),
}

impl End {
    async fn wait(self) -> Option<ExitStatus> {
        match self {
            End::Child(mut child) => child.wait().await.ok(),
            End::Foreign(identity) => {
                while Identity::of(identity.pid) == Some(identity) {
                    tokio::time::sleep(FOREIGN_CHECK).await;
                }
                None
            }
        }
    }
}

/// Kills exactly the process `identity` names, if it still runs.
pub fn kill(identity: Identity) {
    if let Some(handle) = identity.open() {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// Log file of a component.
pub fn log_path(home: &Home, component: &str) -> std::path::PathBuf {
    home.at(&format!("log/{component}.log"))
}

/// The last lines a component logged.
pub fn log_tail(home: &Home, component: &str) -> String {
    tail(&String::from_utf8_lossy(&fs::read(log_path(home, component)).unwrap_or_default()))
}

/// Where components find each other's helpers: the runc shim beside containerd, iptables, mount.
pub fn search_path() -> String {
    let mut folders: Vec<_> = gobuild::folders().iter().map(|path| path.display().to_string()).collect();
    folders.extend(
        ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(String::from),
    );
    folders.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_process_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(started(&format!("12 (plain) {rest}")), Some(4711));
        assert_eq!(started(&format!("12 (two words) (x) {rest}")), Some(4711));
        assert_eq!(started(&format!("12 (gone) {}", rest.replacen('S', "Z", 1))), None);
    }

    #[test]
    fn a_process_that_started_later_is_another_process() {
        let own = Identity::of(std::process::id() as i32).unwrap();
        assert_eq!(Identity::of(own.pid), Some(own));
        let later = Identity { started: own.started + 1, ..own };
        assert!(later.open().is_none() && own.open().is_some());
    }
}
