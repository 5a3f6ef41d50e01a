//! Processes of the cluster's pods, found by the cgroup that the kubelet put them in.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use crate::petri::Error;

/// A process of a pod.
#[derive(Debug, Clone, Copy)]
pub struct Found(Pid);

impl Found {
    /// Returns where a file of its container is.
    pub fn file(self, path: &str) -> PathBuf {
        format!("/proc/{}/root{path}", self.0.as_raw_nonzero()).into()
    }

    /// Sends a signal.
    pub fn signal(self, signal: Signal) -> Result<(), Error> {
        kill_process(self.0, signal)
            .map_err(|error| Error::Wrong(format!("{signal:?} to {:?}: {error}", self.0)))
    }

    /// Tells whether SIGTERM waits for it, which it does not take while it is stopped (`proc_pid_status(5)`).
    pub fn is_asked_to_end(self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.as_raw_nonzero()));
        let term = 1_u64 << (Signal::TERM.as_raw() - 1);
        status.unwrap_or_default().lines().any(|line| {
            let pending = line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:"));
            pending.is_some_and(|set| u64::from_str_radix(set.trim(), 16).is_ok_and(|set| set & term != 0))
        })
    }
}

/// Finds the processes called `comm` in the pod of that UID.
pub fn in_pod(uid: &str, comm: &str) -> Result<Vec<Found>, Error> {
    let list = fs::read_dir("/proc").map_err(|source| Error::File { path: "/proc".into(), source })?;
    let mut found = Vec::new();
    for entry in list.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        if read("comm").trim() == comm && read("cgroup").contains(uid) {
            found.extend(Pid::from_raw(pid).map(Found));
        }
    }
    Ok(found)
}
