//! State folder of one lab, and what is written down about it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cache::{self, Lock};
use super::network::{Addresses, INDEX_MAX};
use super::{LabError, NAME_MAX};

/// One lab by its name: where its state is and what it is called outside its folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home {
    name: String,
    root: PathBuf,
}

/// What is written down about a lab, to be found by another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Address block, see [`Addresses`].
    pub index: u8,
    /// It is whole and outlives the process that started it.
    pub kept: bool,
}

impl Home {
    /// Home of the lab `name`: lower case letters, digits and dashes, at most [`NAME_MAX`] of them.
    pub fn new(name: &str) -> Result<Self, LabError> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(allowed) || name.starts_with('-') {
            return Err(LabError::Name(name.to_string()));
        }
        Ok(Home { name: name.to_string(), root: folder().join(name) })
    }

    /// Every lab that has a state folder, alive or left over.
    pub fn all() -> Vec<Home> {
        let folders = fs::read_dir(folder()).into_iter().flatten().flatten();
        let mut homes: Vec<_> =
            folders.filter_map(|entry| Home::new(entry.file_name().to_str()?).ok()).collect();
        homes.sort();
        homes
    }

    /// The lab's name, also its node's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The state folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the state folder.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The same, as text for an argument or a configuration file.
    pub fn text(&self, path: &str) -> String {
        self.at(path).to_string_lossy().into_owned()
    }

    /// Name of its network namespace and of its cgroups.
    pub fn outside_name(&self) -> String {
        format!("petri-{}", self.name)
    }

    /// File of its network namespace.
    pub fn netns(&self) -> PathBuf {
        Path::new("/run/netns").join(self.outside_name())
    }

    /// Name of the lock that the process which runs it holds.
    pub fn lock_name(&self) -> String {
        format!("lab-{}", self.name)
    }

    /// What was written down about it, if it is there and readable.
    pub fn record(&self) -> Option<Record> {
        serde_json::from_slice(&fs::read(self.at("lab.json")).ok()?).ok()
    }

    /// Writes it down.
    pub fn write(&self, record: Record) -> Result<(), LabError> {
        let text = serde_json::to_vec(&record).map_err(std::io::Error::from)?;
        cache::publish(&self.at("lab.json"), |path| Ok(fs::write(path, text)?))
    }

    /// Takes an address block, the asked one or the first free one, and writes it down.
    pub fn claim(&self, asked: Option<u8>) -> Result<Addresses, LabError> {
        let _lock = Lock::wait("addresses")?;
        let taken: Vec<u8> = Home::all()
            .iter()
            .filter(|home| *home != self)
            .filter_map(|home| Some(home.record()?.index))
            .collect();
        let linked = |index: u8| Path::new("/sys/class/net").join(Addresses::new(index).link()).exists();
        let free = |index: &u8| !taken.contains(index) && !linked(*index);
        let index = match asked {
            Some(index) => Some(index).filter(|index| (1..=INDEX_MAX).contains(index) && free(index)),
            None => (1..=INDEX_MAX).find(free),
        };
        let index = index.ok_or(LabError::Block { asked })?;
        self.write(Record { index, kept: false })?;
        Ok(Addresses::new(index))
    }
}

fn folder() -> PathBuf {
    cache::root().join("labs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_that_is_written_down_is_listed_and_its_block_is_taken() {
        let (one, other) = (Home::new("unit-one").unwrap(), Home::new("unit-other").unwrap());
        // Held, or a lab that starts meanwhile cleans them away.
        let _held = [&one, &other].map(|home| Lock::take(&home.lock_name()).unwrap().unwrap());
        let first = one.claim(None).unwrap();
        assert!(Home::all().contains(&one));
        let second = other.claim(None).unwrap();
        assert_ne!(first, second);
        assert!(other.claim(Some(first.index())).is_err());
        assert!(other.claim(Some(0)).is_err() && other.claim(Some(INDEX_MAX + 1)).is_err());
        for home in [one, other] {
            fs::remove_dir_all(home.root()).unwrap();
        }
    }

    #[test]
    fn a_name_that_is_no_host_name_is_refused() {
        for name in ["", "Upper", "a/b", "..", "-a", "much-too-long-for-a-lab-name"] {
            assert!(Home::new(name).is_err(), "{name}");
        }
        assert!(Home::new("lab-1").is_ok());
    }
}
