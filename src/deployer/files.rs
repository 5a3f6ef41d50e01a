//! The deployer's private files: one directory, nobody else may look into it.

use std::fs::{DirBuilder, OpenOptions, remove_dir_all};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use petri_machines::reason::FailureReason;

use super::classify::Failure;

/// A directory that goes with its value.
#[derive(Debug)]
pub struct WorkDirectory(PathBuf);

impl WorkDirectory {
    /// Makes a new directory for this process below `parent`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(parent: &Path) -> Result<Self, Failure> {
        let number = std::process::id();
        let free = (0_u32..).map(|n| parent.join(format!("petri-{number}-{n}")));
        for path in free {
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failure(&path, &error)),
            }
        }
        Err(Failure::new(FailureReason::HelmFailed, "no name is left for a directory"))
    }

    /// Gives the directory's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        // In a pod it goes with the pod anyway.
        let _left = remove_dir_all(&self.0);
    }
}

/// Writes a new file that only this user may read, and gives its path back.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, content: &[u8]) -> Result<PathBuf, Failure> {
    let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    open.and_then(|mut file| file.write_all(content)).map_err(|error| failure(path, &error))?;
    Ok(path.to_owned())
}

/// Makes an empty directory, in place of whatever an earlier try left.
///
/// # Errors
/// It cannot be made.
pub fn fresh_directory(path: &Path) -> Result<(), Failure> {
    if path.exists() {
        remove_dir_all(path).map_err(|error| failure(path, &error))?;
    }
    DirBuilder::new().mode(0o700).create(path).map_err(|error| failure(path, &error))
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(FailureReason::HelmFailed, format!("{} cannot be written: {error}", path.display()))
}
