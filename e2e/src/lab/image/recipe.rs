//! What each image is made of.

use std::path::Path;

use super::layer::{Layer, sha256};
use super::root::Root;
use super::{APISERVER, DEPLOYER, Image, OPERATOR, PAUSE, POSTGRES, REDIS, WORKLOAD, profile, rust};
use crate::lab::progress::Progress;
use crate::lab::{LabError, blocking, gobuild, pins};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const POSTGRES_PATH: &str = "/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin";
const CHARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts");
/// User of petri's own images.
const PETRI: &str = "65532:65532";

/// libc for the Rust programs, git with its ssh and authorities for the deployer, a shell to look around.
const BASE: Root = Root {
    name: "base",
    packages: &["libc6", "libgcc-s1", "ca-certificates", "git", "openssh-client", "busybox-static"],
    users: &[("petri", 65532, "/tmp")],
};
const DATABASE: Root = Root {
    name: "postgres",
    packages: &["libc6", "postgresql-15", "redis-server", "tzdata", "busybox-static"],
    users: &[("postgres", 999, "/var/lib/postgresql")],
};

/// Every image but the sandbox's.
pub async fn all(progress: &Progress) -> Result<Vec<Image>, LabError> {
    let base = BASE.layer(progress).await?;
    let database = DATABASE.layer(progress).await?;
    let programs = rust::build(&profile(), progress).await?;
    progress.step("packing images");
    let below_deployer = vec![base.clone(), helm().await?, charts().await?];
    Ok(vec![
        with_program(OPERATOR, "petri-operator", &programs, vec![base.clone()]).await?,
        with_program(APISERVER, "petri-apiserver", &programs, vec![base.clone()]).await?,
        with_program(DEPLOYER, "petri-deployer", &programs, below_deployer).await?,
        with_program(WORKLOAD, "petri-workload", &programs, vec![base]).await?,
        Image {
            name: POSTGRES,
            layers: vec![database.clone()],
            entrypoint: vec!["/usr/lib/postgresql/15/bin/postgres".into()],
            user: "999:999",
            path: POSTGRES_PATH,
        },
        Image {
            name: REDIS,
            layers: vec![database],
            entrypoint: vec!["/usr/bin/redis-server".into()],
            user: "999:999",
            path: PATH,
        },
    ])
}

/// An image of one Rust program: the program is the top layer, so that a change of it changes nothing below.
async fn with_program(
    name: &'static str,
    program: &'static str,
    programs: &Path,
    mut layers: Vec<Layer>,
) -> Result<Image, LabError> {
    layers.push(rust::layer(program, programs).await?);
    let entrypoint = vec![format!("/usr/local/bin/{program}")];
    Ok(Image { name, layers, entrypoint, user: PETRI, path: PATH })
}

/// The sandbox: anything that sleeps.
pub fn pause() -> Result<Image, LabError> {
    let busybox = Path::new("/bin/busybox");
    let size = std::fs::metadata(busybox)?.len();
    let sleep =
        Layer::cached(&format!("pause-{size}"), |tree| Ok(tree.copy("bin/sleep", 0o755, busybox)?))?;
    let entrypoint = vec!["/bin/sleep".into(), "infinity".into()];
    Ok(Image { name: PAUSE, layers: vec![sleep], entrypoint, user: "65535:65535", path: "/bin" })
}

async fn helm() -> Result<Layer, LabError> {
    let program = gobuild::program("helm").unwrap_or_else(|| "helm".into());
    let key = format!("helm-{}", pins::HELM);
    blocking(move || Layer::cached(&key, |tree| Ok(tree.copy("usr/local/bin/helm", 0o755, &program)?))).await
}

/// The exemplar charts below `/charts`; small, so they are read to find out whether they changed.
async fn charts() -> Result<Layer, LabError> {
    blocking(|| {
        let mut said = String::new();
        describe(Path::new(CHARTS), &mut said)?;
        let key = format!("charts-{}", &sha256(said.as_bytes())[..12]);
        Layer::cached(&key, |tree| Ok(tree.copy_folder("charts", Path::new(CHARTS))?))
    })
    .await
}

fn describe(folder: &Path, said: &mut String) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            describe(&path, said)?;
        } else {
            said.push_str(&format!("{} {}\n", path.display(), sha256(&std::fs::read(&path)?)));
        }
    }
    Ok(())
}
