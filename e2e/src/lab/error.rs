//! What can go wrong with a lab.

use std::io;
use std::process::ExitStatus;

use super::NAME_MAX;
use super::process::Death;

/// Why a lab could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The process lacks the right to make namespaces, mounts and cgroups.
    #[error("the lab makes network namespaces, mounts and cgroups: run it as root")]
    NotRoot,
    /// The name cannot be a node's name, or is too long for a path.
    #[error("{0:?} is no name for a lab: lower case letters, digits and dashes, at most {NAME_MAX}")]
    Name(String),
    /// No address block is free, or the asked one is not.
    #[error("no address block is free{}", asked.map(|block| format!(": asked for {block}")).unwrap_or_default())]
    Block {
        /// The block asked for, if one was.
        asked: Option<u8>,
    },
    /// A living process runs a lab of this name.
    #[error("the lab {name:?} is run by process {pid}")]
    InUse {
        /// Name of the lab.
        name: String,
        /// The process that holds it.
        pid: String,
    },
    /// A lab of this name was kept and still runs.
    #[error("the lab {0:?} is kept up: attach to it, or end it with `cargo lab down --name {0}`")]
    Kept(String),
    /// There is no running lab of this name to attach to.
    #[error("no lab {0:?} is kept up")]
    Absent(String),
    /// The lab has no such component, or it does not run.
    #[error("no component {0:?} is running")]
    Component(String),
    /// A component to be started runs already.
    #[error("the component {0:?} is running")]
    Running(&'static str),
    /// A component ended that nobody had stopped.
    #[error("{} died{}; the last lines of its log:\n{}", .0.component, status(.0.status), .0.tail)]
    Died(Death),
    /// Something did not come true in time although every component runs.
    #[error("waited {seconds} s in vain for {what}{}", tail_of(.tail))]
    Late {
        /// What was awaited.
        what: String,
        /// How long.
        seconds: u64,
        /// The last answer or log lines, if any.
        tail: String,
    },
    /// A program the lab needs could not be started.
    #[error("cannot start {program}")]
    Start {
        /// Its name or command line.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} failed ({status}):\n{tail}")]
    Failed {
        /// Its command line.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines it said.
        tail: String,
    },
    /// Parts of the lab could not be removed from the machine.
    #[error("the lab has ended but left: {0}")]
    Leftovers(String),
    /// A file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A certificate could not be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The kubeconfig could not be read.
    #[error("cannot read the kubeconfig")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The API server refused, or did not answer.
    #[error("the API server")]
    Api(#[from] kube::Error),
}

fn status(status: Option<ExitStatus>) -> String {
    status.map(|status| format!(" ({status})")).unwrap_or_default()
}

fn tail_of(tail: &str) -> String {
    if tail.is_empty() { String::new() } else { format!(":\n{tail}") }
}
