//! Debian's sshd on a port of its own: one key gets in, and git may be run.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

use super::{file, free, listens, make, write};
use crate::lab::{Progress, command, extracted, run};
use crate::petri::Error;

/// The user that git runs as, of nobody on this machine.
pub(super) const GIT: &str = "65533";

/// A running sshd.
pub struct Sshd {
    place: String,
    folder: PathBuf,
    _process: Child,
}

impl Sshd {
    /// Starts it with keys of its own.
    ///
    /// As root it wants a user `sshd` and a folder in /run: it gets both in a view of the file system of its own.
    /// Anybody else may only log in as himself.
    pub async fn start(address: &str, folder: &Path, progress: &Progress) -> Result<Self, Error> {
        let packages = extracted(&["openssh-server", "libwrap0"], progress).await?;
        let folder = folder.join("ssh");
        make(&folder)?;
        for key in ["host", "other-host", "user", "stranger"] {
            let mut keygen = command("ssh-keygen");
            run(keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f"]).arg(folder.join(key)))
                .await?;
        }
        let port = free(address)?;
        let at = |name: &str| folder.join(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nUsePAM no\nStrictModes no\n\
             PidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nAllowTcpForwarding no\n",
            at("host"),
            at("user.pub")
        );
        write(&folder.join("config"), config.as_bytes())?;
        let is_root = rustix::process::geteuid().is_root();
        let user = match is_root {
            true => "git".to_owned(),
            false => String::from_utf8_lossy(&run(command("id").arg("-un")).await?.stdout).trim().to_owned(),
        };
        let program = packages.join("usr/sbin/sshd");
        let mut sshd = if is_root { apart(&folder, &program)? } else { command(program) };
        sshd.env("LD_LIBRARY_PATH", packages.join("usr/lib/x86_64-linux-gnu"));
        sshd.args(["-D", "-e", "-f"]).arg(folder.join("config"));
        let log =
            std::fs::File::create(folder.join("log")).map_err(|error| file(folder.join("log"), error))?;
        let process = sshd.stdout(Stdio::null()).stderr(log).spawn().map_err(|error| file("sshd", error))?;
        listens("sshd", address, port).await?;
        Ok(Self { place: format!("{user}@{address}:{port}"), folder, _process: process })
    }

    /// Returns the URL of a folder.
    pub fn url(&self, folder: &Path) -> String {
        format!("ssh://{}{}", self.place, folder.display())
    }

    /// Returns the private key that gets in.
    pub fn key(&self) -> String {
        self.read("user")
    }

    /// Returns a private key that does not.
    pub fn stranger(&self) -> String {
        self.read("stranger")
    }

    /// Returns a list of known hosts with this one.
    pub fn known(&self) -> String {
        self.hosts("host.pub")
    }

    /// Returns a list in which this host has another's key.
    pub fn other_host(&self) -> String {
        self.hosts("other-host.pub")
    }

    fn hosts(&self, key: &str) -> String {
        let (_, place) = self.place.split_once('@').unwrap_or_default();
        let (address, port) = place.split_once(':').unwrap_or_default();
        format!("[{address}]:{port} {}\n", self.read(key).trim())
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

/// A program that sees a list of users and a /run of its own.
fn apart(folder: &Path, program: &Path) -> Result<Command, Error> {
    let users = format!(
        "root:x:0:0:root:/root:/bin/sh\nsshd:x:65532:65534::/run/sshd:/usr/sbin/nologin\n\
         git:x:{GIT}:65534::{}:/bin/sh\n",
        folder.display()
    );
    write(&folder.join("passwd"), users.as_bytes())?;
    let mut unshare = command("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c"]);
    unshare.arg(
        "mount --bind \"$0\" /etc/passwd && mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec \"$@\"",
    );
    unshare.arg(folder.join("passwd")).arg(program);
    Ok(unshare)
}
