//! The lab's folder outside the tree: what is built once per machine, and the state of running labs.
//!
//! Everything in it is named by its version, appears by a rename once it is whole, and is made under a
//! file lock. So two labs may start at once, and an interruption costs only the step it hit.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Folder that holds everything the lab keeps: `$XDG_CACHE_HOME/petri-lab`, else `~/.cache/petri-lab`.
pub fn root() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base
        .unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or("/root".into())).join(".cache"));
    base.join("petri-lab")
}

/// An exclusive lock on one thing in the cache; it ends with the value or with the process.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Waits until nobody else holds the lock named `name`.
    pub fn wait(name: &str) -> io::Result<Lock> {
        let file = open(name)?;
        file.lock()?;
        Ok(Lock { file })
    }

    /// Takes the lock named `name` if it is free. The error inside is the holder's process id, when known.
    pub fn take(name: &str) -> io::Result<Result<Lock, String>> {
        let mut file = open(name)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Ok(Err(io::read_to_string(file)?.trim().to_string()));
            }
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Ok(Lock { file }))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file stays: removing it would let two holders lock two different files of one name.
        let _ = self.file.unlock();
    }
}

fn open(name: &str) -> io::Result<File> {
    let folder = root().join("lock");
    fs::create_dir_all(&folder)?;
    File::options().create(true).truncate(false).read(true).write(true).open(folder.join(name))
}

/// Makes the file `path` by `make`, which gets a temporary name beside it; readers see all of it or nothing.
pub fn publish<E: From<io::Error>>(path: &Path, make: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    let temporary = temporary_beside(path)?;
    let made = make(&temporary).and_then(|()| Ok(fs::rename(&temporary, path)?));
    if made.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    made
}

/// A name in the folder of `path` that nobody else uses, in this process or another; makes the folder.
pub fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
    let folder = path.parent().ok_or(io::ErrorKind::InvalidFilename)?;
    fs::create_dir_all(folder)?;
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    Ok(folder.join(format!(".{name}.{}.{number}", std::process::id())))
}

/// Marks a file as in use, so that [`prune`] leaves it alone for a while.
pub fn touch(path: &Path) -> io::Result<()> {
    File::options().append(true).open(path)?.set_modified(SystemTime::now())
}

/// Removes files of `folder` whose names begin with `prefix` and that nobody wrote for `age`: what an older
/// build had made. A younger one may be in use by another lab.
pub fn prune(folder: &Path, prefix: &str, age: Duration) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let written = entry.metadata().and_then(|about| about.modified());
        let old = written.is_ok_and(|written| written.elapsed().is_ok_and(|since| since > age));
        if old && entry.file_name().to_string_lossy().starts_with(prefix) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn two_labs_of_one_process_may_make_the_same_file_at_once() {
        let folder = scratch("twice");
        let path = folder.join("archive");
        let both = Barrier::new(2);
        let made = || {
            publish::<io::Error>(&path, |temporary| {
                fs::write(temporary, "all of it")?;
                both.wait();
                Ok(())
            })
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(made);
            made().unwrap();
            other.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), "all of it");
        fs::remove_dir_all(&folder).unwrap();
    }

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("petri-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_file_that_could_not_be_made_leaves_nothing_behind() {
        let folder = scratch("failed");
        let made = publish::<io::Error>(&folder.join("tool"), |path| {
            fs::write(path, "half of it")?;
            Err(io::Error::other("interrupted"))
        });
        assert!(made.is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_appears_under_its_name_only_when_whole() {
        let folder = scratch("whole");
        let path = folder.join("tool");
        publish::<io::Error>(&path, |temporary| {
            fs::write(temporary, "all of it")?;
            assert!(!path.exists());
            Ok(())
        })
        .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "all of it");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_held_lock_names_its_holder_and_is_free_afterwards() {
        let name = format!("test-{}", std::process::id());
        let held = Lock::take(&name).unwrap().unwrap();
        assert_eq!(Lock::take(&name).unwrap().unwrap_err(), std::process::id().to_string());
        drop(held);
        assert!(Lock::take(&name).unwrap().is_ok());
        fs::remove_file(root().join("lock").join(name)).unwrap();
    }
}
