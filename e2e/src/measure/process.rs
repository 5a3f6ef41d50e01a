//! The processes that are measured, as the kernel sees them.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use crate::lab::Lab;
use crate::petri::Error;

/// Ticks of `/proc/PID/stat` in a second: fixed by Linux towards programs.
const TICKS_PER_SEC: f64 = 100.0;

/// One process.
pub struct Process(PathBuf);

/// What it holds, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Heap and stacks.
    pub anonymous: u64,
    /// The same and the pages of files, the program's own among them.
    pub resident: u64,
}

impl Process {
    /// Finds the operator of a lab by name and cgroup.
    pub fn operator(lab: &Lab) -> Result<Self, Error> {
        let folder = Path::new("/proc");
        let all =
            std::fs::read_dir(folder).map_err(|source| Error::File { path: folder.to_owned(), source })?;
        let read = |path: &Path, file: &str| std::fs::read_to_string(path.join(file)).unwrap_or_default();
        let ours = |path: &PathBuf| {
            read(path, "comm").trim() == "petri-operator" && read(path, "cgroup").contains(lab.name())
        };
        let mut found = all.flatten().map(|entry| entry.path()).filter(ours);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(Self(one)),
            (None, _) => Err(Error::Wrong("no operator runs".to_owned())),
            (Some(_), Some(_)) => Err(Error::Wrong("two operators run".to_owned())),
        }
    }

    /// Finds the cluster's API server: it runs as a process, and names the lab's folder in its command line.
    pub fn kube_apiserver(lab: &Lab) -> Result<Self, Error> {
        let folder = lab.audit_log().parent().map(|audit| audit.display().to_string()).unwrap_or_default();
        let all =
            std::fs::read_dir("/proc").map_err(|source| Error::File { path: "/proc".into(), source })?;
        let ours = |path: &PathBuf| {
            let line = std::fs::read_to_string(path.join("cmdline")).unwrap_or_default();
            line.contains("kube-apiserver") && line.contains(&folder)
        };
        let found = all.flatten().map(|entry| entry.path()).find(ours);
        found.map(Self).ok_or_else(|| Error::Wrong("no kube-apiserver runs".to_owned()))
    }

    /// Names a process by its number.
    pub fn numbered(id: u32) -> Self {
        Self(Path::new("/proc").join(id.to_string()))
    }

    fn read(&self, file: &str) -> Result<String, Error> {
        let path = self.0.join(file);
        std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })
    }

    /// Returns what it holds now.
    pub fn memory(&self) -> Result<Memory, Error> {
        memory(&self.read("status")?).ok_or_else(|| Error::Wrong("/proc tells no memory".to_owned()))
    }

    /// Returns when it was started, to a hundredth of a second.
    pub fn begun(&self) -> Result<Timestamp, Error> {
        let path = PathBuf::from("/proc/uptime");
        let uptime = std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
        let age = age_secs(&uptime, &self.read("stat")?);
        let age = age.and_then(|age| SignedDuration::try_from_secs_f64(age).ok());
        let age = age.ok_or_else(|| Error::Wrong("/proc tells no start".to_owned()))?;
        Ok(Timestamp::now() - age)
    }

    /// Returns the seconds of CPU that it has used, in user and kernel mode.
    pub fn cpu_secs(&self) -> Result<f64, Error> {
        cpu_secs(&self.read("stat")?).ok_or_else(|| Error::Wrong("/proc tells no CPU time".to_owned()))
    }
}

fn memory(status: &str) -> Option<Memory> {
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().trim_end_matches("kB").trim().parse().ok()
    };
    Some(Memory { anonymous: kib("RssAnon:")?, resident: kib("VmRSS:")? })
}

fn cpu_secs(stat: &str) -> Option<f64> {
    // The name stands in parentheses and may contain anything; state is the first field after it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / TICKS_PER_SEC)
}

fn age_secs(uptime: &str, stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let begun: f64 = rest.split_whitespace().nth(19)?.parse().ok()?;
    let up: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    Some(up - begun / TICKS_PER_SEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let status = "Name:\tx\nVmRSS:\t   12345 kB\nRssAnon:\t    1900 kB\n";
        assert_eq!(memory(status), Some(Memory { anonymous: 1900, resident: 12345 }));
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 99";
        assert_eq!(cpu_secs(stat), Some(2.0));
        assert_eq!(age_secs("100.5 190.1", stat), Some(100.5 - 0.99));
    }
}
