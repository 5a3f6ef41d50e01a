//! Ends a lab and all it left on the machine, however it ended.
//!
//! It needs nothing but the lab's name: what belongs to a lab is what runs in its network namespace or its
//! cgroups, what is mounted below its folder, and what is named after it. So the same code serves the
//! orderly end, a drop in a panic, a signal, and the leftovers of a lab that was killed.
//! Nothing here is asynchronous, because a drop cannot wait for a task.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};

use super::LabError;
use super::home::Home;
use super::network::Addresses;
use super::process::{self, Identity};

/// How long killed processes and emptied cgroups may take to go; a second was never needed.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);
const CGROUPS: &str = "/sys/fs/cgroup";

/// Ends the lab; an error names what could not be removed. Ending what is not there succeeds.
pub fn teardown(home: &Home) -> Result<(), LabError> {
    let deadline = Instant::now() + GONE_WITHIN;
    kill_all(home, deadline);
    let sockets = shim_sockets(home);
    for mount in mounts_below(home).iter().rev() {
        let _ = unmount(mount, UnmountFlags::DETACH);
    }
    remove_network(home);
    for cgroup in cgroups(home) {
        while remove_cgroup(&cgroup).is_err() && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
    }
    for path in sockets.iter().chain(&cni_results(home)).chain(&log_links(home)) {
        let _ = fs::remove_file(path);
    }
    // Only with all mounts gone: otherwise this would empty the folders that pods had mounted.
    if mounts_below(home).is_empty() {
        let _ = fs::remove_dir_all(home.root());
    }
    let left = leftovers(home);
    if left.is_empty() { Ok(()) } else { Err(LabError::Leftovers(left.join(", "))) }
}

/// What of the lab is still on the machine, one short text each; empty when it is gone.
pub fn leftovers(home: &Home) -> Vec<String> {
    let mut left: Vec<String> =
        members(home).iter().map(|member| format!("process {}", member.pid)).collect();
    left.extend(mounts_below(home).iter().map(|path| format!("mount {}", path.display())));
    let files = cgroups(home).into_iter().chain(cni_results(home)).chain(log_links(home));
    let link =
        home.record().map(|record| Path::new("/sys/class/net").join(Addresses::new(record.index).link()));
    let named =
        [home.netns(), home.root().to_path_buf()].into_iter().chain(link).filter(|path| path.exists());
    left.extend(files.chain(named).map(|path| path.display().to_string()));
    left
}

/// True when one of the lab's processes runs.
pub fn is_running(home: &Home) -> bool {
    !members(home).is_empty()
}

fn kill_all(home: &Home, deadline: Instant) {
    // Again and again: what dies last may have started another one.
    loop {
        let members = members(home);
        if members.is_empty() || Instant::now() > deadline {
            return;
        }
        members.into_iter().for_each(process::kill);
        std::thread::sleep(PAUSE);
    }
}

/// Every living process of the lab: those in its network namespace (components, shims) and those in its
/// cgroups (containers, whose namespaces are their own).
fn members(home: &Home) -> BTreeSet<Identity> {
    let mut pids = BTreeSet::new();
    if let Ok(netns) = fs::metadata(home.netns()) {
        let is_member = |pid: &i32| {
            fs::metadata(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|of| (of.dev(), of.ino()) == (netns.dev(), netns.ino()))
        };
        pids.extend(entries(Path::new("/proc")).iter().filter_map(|path| number(path)).filter(is_member));
    }
    for cgroup in cgroups(home) {
        each_folder(&cgroup, &mut |folder| {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        });
    }
    pids.into_iter().filter_map(Identity::of).collect()
}

fn number(path: &Path) -> Option<i32> {
    path.file_name()?.to_str()?.parse().ok()
}

fn mounts_below(home: &Home) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let paths = table.lines().filter_map(|line| line.split(' ').nth(1));
    paths.map(unescape).filter(|path| path.starts_with(home.root()) && path != home.root()).collect()
}

/// `/proc/self/mounts` writes a blank as `\040`, a tabulator as `\011`, a backslash as `\134`.
fn unescape(text: &str) -> PathBuf {
    PathBuf::from(
        text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\"),
    )
}

fn remove_network(home: &Home) {
    if let Some(record) = home.record() {
        let link = Addresses::new(record.index).link();
        if Path::new("/sys/class/net").join(&link).exists() {
            ip(&["link", "del", &link]);
        }
    }
    if home.netns().exists() {
        ip(&["netns", "del", &home.outside_name()]);
    }
}

fn ip(args: &[&str]) {
    let _ = Command::new("ip")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// The lab's own cgroup under every controller (version 1), or the only one (version 2).
fn cgroups(home: &Home) -> Vec<PathBuf> {
    let mut parents = entries(Path::new(CGROUPS));
    parents.push(PathBuf::from(CGROUPS));
    parents.iter().map(|parent| parent.join(home.outside_name())).filter(|path| path.is_dir()).collect()
}

/// Makes the lab's cgroups, where the kubelet puts the pods.
pub fn create_cgroups(home: &Home) -> Result<(), LabError> {
    let root = Path::new(CGROUPS);
    if root.join("cgroup.controllers").exists() {
        return Ok(fs::create_dir_all(root.join(home.outside_name()))?);
    }
    for controller in entries(root).iter().filter(|path| path.is_dir() && !path.is_symlink()) {
        // A mount of another kind beside the controllers refuses, and the kubelet does not ask for it.
        let _ = fs::create_dir(controller.join(home.outside_name()));
    }
    Ok(())
}

fn remove_cgroup(path: &Path) -> std::io::Result<()> {
    for folder in entries(path).iter().filter(|entry| entry.is_dir()) {
        remove_cgroup(folder)?;
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Sockets of containers' shims: containerd puts them into a folder of the machine, and each task's folder
/// says which is its own.
fn shim_sockets(home: &Home) -> Vec<PathBuf> {
    let tasks = home.at("containerd/state/io.containerd.runtime.v2.task/k8s.io");
    let address = |task: &PathBuf| {
        let text = fs::read_to_string(task.join("bootstrap.json")).ok()?;
        let bootstrap: serde_json::Value = serde_json::from_str(&text).ok()?;
        let socket = bootstrap["address"].as_str()?.strip_prefix("unix://")?.to_string();
        socket.starts_with("/run/containerd/s/").then(|| PathBuf::from(socket))
    };
    entries(&tasks).iter().filter_map(address).collect()
}

/// What the CNI library remembers of each pod's networks, in a folder of the machine; each file names the
/// pod's namespace, which lies below the lab's folder.
fn cni_results(home: &Home) -> Vec<PathBuf> {
    let below = format!("{}/", home.root().display());
    let is_ours = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(&below));
    entries(Path::new("/var/lib/cni/results")).into_iter().filter(is_ours).collect()
}

/// The kubelet links each container's log into a folder of the machine.
fn log_links(home: &Home) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| fs::read_link(path).is_ok_and(|target| target.starts_with(home.root()));
    entries(Path::new("/var/log/containers")).into_iter().filter(is_ours).collect()
}

fn each_folder(path: &Path, visit: &mut impl FnMut(&Path)) {
    visit(path);
    for folder in entries(path).iter().filter(|entry| entry.is_dir()) {
        each_folder(folder, visit);
    }
}

fn entries(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ending_a_lab_that_never_was_succeeds() {
        let home = Home::new("never-was").unwrap();
        teardown(&home).unwrap();
        assert!(!is_running(&home));
    }

    #[test]
    fn a_mount_point_with_a_blank_is_read_back() {
        assert_eq!(unescape("/a\\040b\\134c"), PathBuf::from("/a b\\c"));
    }
}
