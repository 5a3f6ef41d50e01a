//! The ssh that git runs: one key, known hosts only, nobody is asked, and no file of the machine configures it.

use std::ffi::OsString;
use std::path::Path;

use crate::deployer::classify::Failure;
use crate::deployer::files;
use crate::deployer::source::credentials::Credentials;

/// Everything that ssh may do; options cannot come from anywhere else.
const CONFIG: &str = "\
Host *
  BatchMode yes
  StrictHostKeyChecking yes
  GlobalKnownHostsFile none
  UpdateHostKeys no
  IdentitiesOnly yes
  IdentityAgent none
  PreferredAuthentications publickey
  ClearAllForwardings yes
  PermitLocalCommand no
  ControlMaster no
  ControlPath none
  ConnectTimeout 15
  ServerAliveInterval 10
  ServerAliveCountMax 3
  LogLevel ERROR
";

/// Writes the key and the configuration, and gives git's variables for them.
///
/// Git hands the command to a shell: it is fixed but for the path of the deployer's own directory. What
/// belongs to the repository's URL comes after it as arguments.
///
/// # Errors
/// The Secret has no key or no known hosts, or the files cannot be written.
pub fn environment(credentials: &Credentials, work: &Path) -> Result<Vec<(OsString, OsString)>, Failure> {
    let (key, known_hosts) = credentials.ssh()?;
    // A key that was pasted lacks its last line break or has those of another system; ssh reads neither.
    let key = format!("{}\n", key.replace('\r', "").trim_end());
    let key = files::write(&work.join("ssh-key"), key.as_bytes())?;
    let config = format!(
        "{CONFIG}  IdentityFile \"{}\"\n  UserKnownHostsFile \"{}\"\n",
        key.display(),
        known_hosts.display()
    );
    let config = files::write(&work.join("ssh-config"), config.as_bytes())?;
    let quoted = config.display().to_string().replace('\'', r"'\''");
    Ok(vec![
        ("GIT_SSH_COMMAND".into(), format!("ssh -F '{quoted}'").into()),
        ("GIT_SSH_VARIANT".into(), "ssh".into()),
    ])
}
