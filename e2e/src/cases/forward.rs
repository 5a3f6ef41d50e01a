//! A way from this machine to something inside the cluster.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::petri::{Error, Petri};

/// `kubectl port-forward` to a service or a pod, ended when dropped.
pub struct Forward {
    /// Port of this machine.
    pub port: u16,
    _kubectl: Child,
}

impl Forward {
    /// Starts it, and waits until it listens.
    pub async fn start(petri: &Petri<'_>, namespace: &str, target: &str, port: u16) -> Result<Self, Error> {
        let kubectl: &Path = &petri.lab.bin("kubectl");
        let failed = |source| Error::File { path: kubectl.to_owned(), source };
        let mut child = Command::new(kubectl)
            .arg("--kubeconfig")
            .arg(petri.lab.kubeconfig())
            .args(["port-forward", "--namespace", namespace, target, &format!(":{port}")])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.as_mut() {
            let mut reader = BufReader::new(stdout);
            let read = tokio::time::timeout(Duration::from_secs(20), reader.read_line(&mut line)).await;
            read.map_err(|_| Error::Wrong(format!("no way to {target}")))?.map_err(failed)?;
        }
        let (_, rest) = line.split_once("127.0.0.1:").unwrap_or_default();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let port = digits.parse().map_err(|_| Error::Wrong(format!("port-forward to {target}: {line:?}")))?;
        Ok(Self { port, _kubectl: child })
    }
}
