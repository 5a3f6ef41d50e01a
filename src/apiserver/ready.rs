//! Whether requests could be served: the cluster lists environments and templates, and the issuer's keys are known.

use crate::{
    apiserver::{cluster::Cluster, gate::Authenticator},
    telemetry::health::Report,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tracing::{info, warn};

/// Between two looks at the cluster; probes are answered from the last one.
const LOOK: Duration = Duration::from_secs(5);

/// What the last look showed; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Looks at the cluster once.
    pub async fn look(&self, cluster: &Cluster) {
        let looked = cluster.probe().await;
        let before = self.0.swap(looked.is_ok(), Ordering::SeqCst);
        match looked {
            Ok(()) if !before => info!("environments and templates can be listed"),
            Err(error) if before => warn!(%error, "environments and templates cannot be listed"),
            _ => {}
        }
    }

    /// Looks at the cluster again and again.
    pub async fn keep_looking(&self, cluster: &Cluster) {
        loop {
            self.look(cluster).await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Answers a probe.
    pub fn report(&self, authenticator: &Authenticator) -> Report {
        let (cluster, keys) = (self.0.load(Ordering::SeqCst), authenticator.is_ready());
        let word = |ok| if ok { "ok" } else { "waiting" };
        Report { ok: cluster && keys, text: format!("cluster: {}\nissuer: {}\n", word(cluster), word(keys)) }
    }
}
