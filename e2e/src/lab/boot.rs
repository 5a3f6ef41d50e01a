//! The order in which a cluster comes up.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::Api;

use super::cache::Lock;
use super::command::{command, run};
use super::guard::{self, Guard};
use super::home::Home;
use super::progress::Progress;
use super::teardown::{self, create_cgroups};
use super::{Lab, LabError, Options, blocking, certs, config, debian, gobuild, image, network, process};

/// How long one awaited thing may take while all components live; a loaded machine needed 20 s.
const AWAIT_MAX: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);

/// Starts a cluster; see [`Lab::up`].
pub async fn up(options: &Options, progress: &Progress) -> Result<Lab, LabError> {
    if !rustix::process::geteuid().is_root() {
        return Err(LabError::NotRoot);
    }
    let home = Home::new(&options.name)?;
    guard::start_listener();
    build(progress).await?;
    let pause = image::pause().await?;
    let lock = lock(&home).await?;
    if home.record().is_some_and(|record| record.kept) && teardown::is_running(&home) {
        return Err(LabError::Kept(options.name.clone()));
    }
    progress.step("cleaning up what earlier labs left");
    blocking(sweep).await?;
    let unclean = home.clone();
    blocking(move || teardown::teardown(&unclean)).await?;
    let mut lab = prepare(home, options.index, lock).await?;
    boot(&lab, progress, &pause).await?;
    if options.keep {
        lab.keep()?;
    }
    Ok(lab)
}

/// Installs and builds what a cluster is made of, once per machine.
pub async fn build(progress: &Progress) -> Result<(), LabError> {
    debian::install(progress).await?;
    gobuild::build(progress).await
}

/// Takes the lab's name for this process.
pub async fn lock(home: &Home) -> Result<Lock, LabError> {
    let home = home.clone();
    let taken = blocking({
        let name = home.lock_name();
        move || Ok(Lock::take(&name)?)
    });
    taken.await?.map_err(|pid| LabError::InUse { name: home.name().into(), pid })
}

/// Ends every lab whose process was killed: each holds memory and an address block.
fn sweep() -> Result<(), LabError> {
    // A folder without a record is none of ours: a lab writes it first.
    for home in Home::all().into_iter().filter(|home| home.record().is_some()) {
        let kept =
            |home: &Home| home.record().is_some_and(|record| record.kept) && teardown::is_running(home);
        if let Ok(_lock) = Lock::take(&home.lock_name())?
            && !kept(&home)
        {
            teardown::teardown(&home)?;
        }
    }
    Ok(())
}

/// Makes everything a cluster needs besides processes.
async fn prepare(home: Home, index: Option<u8>, lock: Lock) -> Result<Lab, LabError> {
    let guard = Guard::new(&home);
    let _making = guard::making().await;
    let addresses = home.claim(index)?;
    certs::write(&home.at("pki"), home.name(), &addresses)?;
    config::write(&home, &addresses)?;
    network::create(&home.outside_name(), &addresses).await?;
    create_cgroups(&home)?;
    Lab::of(home, addresses, Some((guard, lock))).await
}

async fn boot(lab: &Lab, progress: &Progress, pause: &Path) -> Result<(), LabError> {
    let work = async {
        progress.step_of(1, 5, "starting etcd, containerd and the API server");
        for name in ["etcd", "containerd", "kube-apiserver"] {
            lab.launch(name).await?;
        }
        progress.step_of(2, 5, "waiting for containerd");
        // The kubelet exits without its socket, and no pod starts without the sandbox image.
        wait("containerd", || import(&lab.home, pause)).await?;
        progress.step_of(3, 5, "waiting for the API server");
        serves(lab, "kube-apiserver").await?;
        progress.step_of(4, 5, "starting the controllers and the node");
        // Only now: started earlier they exit, because their roles are not there yet.
        for name in ["kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns"] {
            lab.launch(name).await?;
        }
        // Each kubelet removes the device plugins' socket, whose path is a constant of it, and listens
        // there anew: of two that do so in the same instant one exits with "address already in use".
        let _alone = blocking(|| Ok(Lock::wait("kubelet")?)).await?;
        lab.launch("kubelet").await?;
        progress.step_of(5, 5, "waiting for the node");
        wait("the node to be ready", || node_ready(lab)).await?;
        // Without it the API server refuses every pod of the default namespace.
        wait("the default service account", || pods_allowed(lab)).await
    };
    lab.watched(work).await
}

/// Waits until the component `name` serves, if others die without it.
pub async fn serves(lab: &Lab, name: &str) -> Result<(), LabError> {
    match name {
        "kube-apiserver" => wait("the API server", || ready(lab)).await,
        "containerd" => wait("containerd", || answers(&lab.home)).await,
        _ => Ok(()),
    }
}

/// Repeats `attempt` until it succeeds.
async fn wait<F>(what: &str, attempt: impl Fn() -> F) -> Result<(), LabError>
where
    F: Future<Output = Result<(), LabError>>,
{
    let deadline = tokio::time::Instant::now() + AWAIT_MAX;
    loop {
        match attempt().await {
            Ok(()) => return Ok(()),
            Err(last) if tokio::time::Instant::now() > deadline => {
                let (what, seconds) = (what.to_string(), AWAIT_MAX.as_secs());
                return Err(LabError::Late { what, seconds, tail: format!("  {last}") });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn ready(lab: &Lab) -> Result<(), LabError> {
    let request = http::Request::get("/readyz").body(Vec::new()).map_err(kube::Error::HttpError)?;
    lab.client().request_text(request).await?;
    Ok(())
}

async fn node_ready(lab: &Lab) -> Result<(), LabError> {
    let node = Api::<Node>::all(lab.client()).get(lab.name()).await?;
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    if ready.is_some_and(|condition| condition.status == "True") {
        return Ok(());
    }
    let message = ready.and_then(|condition| condition.message.clone()).unwrap_or_default();
    Err(LabError::Io(std::io::Error::other(message)))
}

async fn pods_allowed(lab: &Lab) -> Result<(), LabError> {
    Api::<ServiceAccount>::namespaced(lab.client(), "default").get("default").await?;
    Ok(())
}

/// Imports an OCI archive into the node's containerd.
pub async fn import(home: &Home, archive: &Path) -> Result<(), LabError> {
    run(ctr(home).args(["images", "import"]).arg(archive)).await.map(drop)
}

async fn answers(home: &Home) -> Result<(), LabError> {
    run(ctr(home).arg("version")).await.map(drop)
}

fn ctr(home: &Home) -> tokio::process::Command {
    let mut ctr = command(gobuild::program("ctr").unwrap_or_else(|| "ctr".into()));
    // It wants an absolute path of the socket.
    ctr.env("PATH", process::search_path()).arg("--address").arg(home.at("containerd.sock"));
    ctr.args(["--namespace", "k8s.io"]);
    ctr
}
