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
