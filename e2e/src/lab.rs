//! A real one-node Kubernetes for the demo, the tests and the benchmarks.
//!
//! [`Lab::up`] installs what is missing, builds the cluster's programs once per machine, boots etcd, the
//! API server, the controller manager, the scheduler, containerd, the kubelet, kube-proxy and CoreDNS in a
//! network namespace of their own, and returns when the node is ready. A lab ends with its value, with a
//! panic, or with a signal; one that was killed is cleaned away by the next start.
//!
//! It runs as root on Linux. All of its traffic stays inside its own network namespace and the link to it.

mod boot;
mod cache;
mod certs;
mod command;
mod component;
mod config;
mod debian;
mod error;
mod gobuild;
mod guard;
mod home;
pub mod image;
mod network;
pub mod pins;
mod process;
mod progress;
mod teardown;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;

use futures::future::BoxFuture;
use tokio::sync::{Mutex, watch};

pub use cache::root as cache_root;
pub(crate) use certs::for_server as certificates;
pub(crate) use command::{command, run};
pub use component::NAMES as COMPONENTS;
pub use debian::{extracted, promtool};
pub use error::LabError;
pub use gobuild::{http_route_definition, monitoring_definitions};
pub use process::Death;
pub use progress::Progress;

use crate::cluster::Cluster;
use cache::Lock;
use guard::Guard;
use home::{Home, Record};
use network::Addresses;
use process::Process;

/// Longest name of a lab: it becomes part of socket paths and of a network namespace's name.
pub const NAME_MAX: usize = 20;

/// How a lab is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name, which is also the node's: lower case letters, digits and dashes, at most [`NAME_MAX`].
    pub name: String,
    /// Its address block, 1 to 50; the first free one when absent.
    pub index: Option<u8>,
    /// Outlives this process once it is up; [`Lab::down_named`] ends it.
    pub keep: bool,
}

impl Options {
    /// A lab called `name` that ends with its value.
    pub fn new(name: impl Into<String>) -> Self {
        Options { name: name.into(), index: None, keep: false }
    }

    /// Lets the lab outlive the process.
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }
}

/// What a lab of some name is doing; see [`Lab::list`].
#[derive(Debug, Clone)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// It outlives the process that started it.
    pub kept: bool,
    /// Its processes that run; all of [`COMPONENTS`] when it is healthy, none when only leftovers are there.
    pub running: Vec<&'static str>,
    /// Kubeconfig of its administrator.
    pub kubeconfig: PathBuf,
}

/// A running cluster.
pub struct Lab {
    home: Home,
    addresses: Addresses,
    cluster: Cluster,
    processes: Mutex<BTreeMap<&'static str, Process>>,
    deaths: watch::Sender<Option<Death>>,
    /// Ends the cluster with this value, unless it is kept; the name is free only after that.
    owned: Option<(Guard, Lock)>,
}

impl Lab {
    /// Installs and builds what clusters are made of, which [`Lab::up`] would do first.
    ///
    /// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
    pub fn build() -> BoxFuture<'static, Result<(), LabError>> {
        Box::pin(async move {
            let progress = Progress::new();
            let built = boot::build(&progress).await;
            progress.clear();
            built
        })
    }

    /// Starts a cluster and returns when its node is ready. What a killed lab left is cleaned away first.
    ///
    /// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
    pub fn up(options: Options) -> BoxFuture<'static, Result<Lab, LabError>> {
        Box::pin(async move {
            let progress = Progress::new();
            let lab = boot::up(&options, &progress).await;
            progress.clear();
            lab
        })
    }

    /// Joins a cluster that was kept; dropping the value leaves it running.
    ///
    /// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
    pub fn attach(name: &str) -> BoxFuture<'_, Result<Lab, LabError>> {
        Box::pin(async move {
            let home = Home::new(name)?;
            let record =
                home.record().filter(|record| record.kept).ok_or_else(|| LabError::Absent(name.into()))?;
            let lab = Lab::of(home, Addresses::new(record.index), None).await?;
            for name in COMPONENTS {
                if let Some(process) = Process::attach(&lab.home, name, lab.deaths.clone()) {
                    lab.processes.lock().await.insert(name, process);
                }
            }
            if lab.processes.lock().await.is_empty() {
                return Err(LabError::Absent(name.into()));
            }
            Ok(lab)
        })
    }

    /// Ends the cluster `name`, kept or left over; succeeds when there is none.
    pub async fn down_named(name: &str) -> Result<(), LabError> {
        let home = Home::new(name)?;
        let _lock = boot::lock(&home).await?;
        blocking(move || teardown::teardown(&home)).await
    }

    /// Every lab on this machine, alive or left over.
    pub fn list() -> Vec<Status> {
        let status = |home: Home| Status {
            name: home.name().to_string(),
            kept: home.record().is_some_and(|record| record.kept),
            running: COMPONENTS
                .into_iter()
                .filter(|name| process::Identity::recorded(&home, name).is_some())
                .collect(),
            kubeconfig: home.at(KUBECONFIG),
        };
        Home::all().into_iter().map(status).collect()
    }

    /// What of the lab `name` is on the machine, one short text each: processes, mounts, cgroups, files.
    pub fn leftovers(name: &str) -> Result<Vec<String>, LabError> {
        Ok(teardown::leftovers(&Home::new(name)?))
    }

    /// A cluster whose configuration is written, without processes.
    async fn of(home: Home, addresses: Addresses, owned: Option<(Guard, Lock)>) -> Result<Lab, LabError> {
        let cluster = Cluster::new(home.at(KUBECONFIG), None).await?;
        let (processes, deaths) = (Mutex::default(), watch::Sender::new(None));
        Ok(Lab { home, addresses, cluster, processes, deaths, owned })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.home.name()
    }

    /// The cluster, as its administrator reaches it.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Kubeconfig of the cluster's administrator.
    pub fn kubeconfig(&self) -> &Path {
        self.cluster.kubeconfig()
    }

    /// A client with the rights of the cluster's administrator.
    pub fn client(&self) -> kube::Client {
        self.cluster.client()
    }

    /// Address of the node; node ports answer there.
    pub fn node_address(&self) -> String {
        self.addresses.node()
    }

    /// Where the API server listens.
    pub fn api_address(&self) -> SocketAddr {
        self.addresses.api()
    }

    /// The certificate of the authority that signed the API server's.
    pub fn authority(&self) -> PathBuf {
        self.home.at("pki/ca.crt")
    }

    /// Gives the API server another certificate of the same authority; it takes it by itself.
    pub fn renew_certificate(&self) -> Result<(), LabError> {
        certs::renew(&self.home.at("pki"))
    }

    /// Address of this machine as the cluster sees it; pods reach what listens there.
    pub fn host_address(&self) -> String {
        self.addresses.host()
    }

    /// Folder of the components' logs, `NAME.log` each.
    pub fn logs(&self) -> PathBuf {
        self.home.at("log")
    }

    /// The same of the lab `name`, which may be another process's.
    pub fn logs_of(name: &str) -> Result<PathBuf, LabError> {
        Ok(Home::new(name)?.at("log"))
    }

    /// The API server's log of every request: user, verb, object, time, answer; one JSON object per line.
    pub fn audit_log(&self) -> PathBuf {
        self.home.at("audit/audit.log")
    }

    /// Path of a program: one the lab has built (`helm`, `kubectl`, `etcd`…), else the name itself.
    pub fn bin(&self, name: &str) -> PathBuf {
        path(name)
    }

    /// A command of a program in the network of the cluster: it reaches pods and services as the node does. It ends with
    /// its value.
    pub fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> tokio::process::Command {
        let mut inside = command("nsenter");
        inside.arg(format!("--net={}", self.home.netns().display())).arg(program);
        inside
    }

    /// Runs kubectl as the administrator, to its end; output is captured, and a failure is an error with it.
    pub async fn kubectl<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Result<Output, LabError> {
        self.cluster.kubectl(args).await
    }

    /// Gives the node an image from an OCI archive file.
    pub async fn load_image(&self, archive: &Path) -> Result<(), LabError> {
        boot::import(&self.home, archive).await
    }

    /// Gives the node images; those it has already cost little.
    pub async fn load_images(&self, images: &[image::Image]) -> Result<(), LabError> {
        boot::import(&self.home, &image::archive(images).await?).await
    }

    /// Ends one component (of [`COMPONENTS`]) without a chance to say goodbye, for fault tests.
    pub async fn stop_component(&self, name: &str) -> Result<(), LabError> {
        let process =
            self.processes.lock().await.remove(name).ok_or_else(|| LabError::Component(name.into()))?;
        process.stop().await;
        Ok(())
    }

    /// Process number of a running component.
    pub async fn component_pid(&self, name: &str) -> Option<i32> {
        self.processes.lock().await.get(name).map(|process| process.pid())
    }

    /// Starts a component that was stopped; returns when the API server or containerd serves, and at once
    /// with the others.
    pub async fn start_component(&self, name: &str) -> Result<(), LabError> {
        self.launch(name).await?;
        self.watched(boot::serves(self, name)).await
    }

    async fn launch(&self, name: &str) -> Result<(), LabError> {
        let component = component::component(name, &self.home, &self.addresses);
        let component = component.ok_or_else(|| LabError::Component(name.into()))?;
        let mut processes = self.processes.lock().await;
        let _making = guard::making().await;
        if processes.contains_key(component.name) {
            return Err(LabError::Running(component.name));
        }
        processes.insert(component.name, Process::start(&self.home, &component, self.deaths.clone())?);
        Ok(())
    }

    /// Returns when a component has died that nobody had stopped, with the last lines of its log.
    pub async fn died(&self) -> LabError {
        let mut deaths = self.deaths.subscribe();
        match deaths.wait_for(Option::is_some).await.map(|death| death.clone()) {
            Ok(Some(death)) if !guard::is_ending() => LabError::Died(death),
            // A signal ends the lab and then the process; or the sender, a field of this value, is gone.
            _ => std::future::pending().await,
        }
    }

    /// Runs `work`, and stops it with an error as soon as a component dies.
    pub async fn watched<T, E: From<LabError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        tokio::select! {
            biased;
            death = self.died() => Err(death.into()),
            done = work => done,
        }
    }

    /// Lets the cluster outlive this value and this process.
    pub fn keep(&mut self) -> Result<(), LabError> {
        self.home.write(Record { index: self.addresses.index(), kept: true })?;
        if let Some((guard, _lock)) = self.owned.take() {
            guard.disarm();
        }
        Ok(())
    }

    /// Ends the cluster, a kept one too; an error names what could not be removed.
    pub async fn down(self) -> Result<(), LabError> {
        for (_, process) in std::mem::take(&mut *self.processes.lock().await) {
            process.stop().await;
        }
        let home = self.home.clone();
        // The guard then finds nothing left to do.
        blocking(move || teardown::teardown(&home)).await
    }
}

const KUBECONFIG: &str = "conf/admin.kubeconfig";

/// Builds one of the lab's programs alone, if it is missing.
pub(crate) async fn provide(name: &str, progress: &Progress) -> Result<(), LabError> {
    gobuild::build_one(name, progress).await
}

/// Path of the helm that the lab deploys with; it is built if it is missing.
pub async fn helm(progress: &Progress) -> Result<PathBuf, LabError> {
    provide("helm", progress).await?;
    Ok(path("helm"))
}

/// A command of a program that the lab has built, else of the name itself.
pub(crate) fn program(name: &str) -> tokio::process::Command {
    command(path(name))
}

/// Where a program is that the lab has built; else its name.
pub(crate) fn path(name: &str) -> PathBuf {
    gobuild::program(name).unwrap_or_else(|| PathBuf::from(name))
}

/// Waits for the lock `name` on something in the cache, and says so if somebody holds it.
async fn lock(name: &str, progress: &Progress) -> Result<Lock, LabError> {
    if let Ok(lock) = Lock::take(name)? {
        return Ok(lock);
    }
    progress.step(format!("waiting for another lab that makes {name}"));
    let name = name.to_string();
    blocking(move || Ok(Lock::wait(&name)?)).await
}

/// Runs something that blocks outside the runtime's own threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LabError> + Send + 'static,
) -> Result<T, LabError> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_can_be_started_from_any_task() {
        fn assert_send(_: impl Send) {}
        assert_send(Lab::up(Options::new("never-run")));
        assert_send(image::build(&Progress::new()));
    }
}
