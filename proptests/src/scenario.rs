//! A stored life: a list of operations with a name, replayed for ever. Failing lives are kept as these, not as seeds.

use crate::{
    dish::{Dish, Op, cluster::Cluster},
    laws::Breach,
};
use petri_machines::environment::Phase;
use serde::{Deserialize, Serialize};
use std::{fs, io, path::Path};

/// The only version of the file format.
pub const VERSION: u32 = 1;

/// One stored life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// The version of the format.
    pub version: u32,
    /// What it shows, as a sentence; numbers of `scenarios.md` and ids of `failures.md` stand in it.
    pub name: String,
    /// What may be asked for, as in [`crate::dish::spec`]; the first is asked for at the beginning.
    pub specs: Vec<String>,
    /// Seconds until the environment expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_secs: Option<u64>,
    /// What happens.
    pub ops: Vec<Op>,
    /// Where it comes to rest when nothing more happens, and stays in silence: `Ready`, `Failed` or `gone`.
    pub rests: String,
    /// How many attempts of any kind it made until then, where that is the point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
}

/// Why a scenario could not be told.
#[derive(Debug)]
pub enum Fault {
    /// The file cannot be read.
    Io(io::Error),
    /// The file is malformed; the message says where.
    Malformed(serde_json::Error),
    /// The file is of another version.
    Version(u32),
    /// A specification is malformed.
    Spec(crate::dish::spec::Malformed),
    /// A law or invariant is broken.
    Breach(Breach),
    /// It came to rest elsewhere, or after another number of attempts.
    Rests {
        /// Where it should.
        expected: String,
        /// Where it did.
        found: String,
    },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::Malformed(error) => write!(f, "is malformed: {error}"),
            Self::Version(found) => write!(f, "is of version {found}, only {VERSION} is known"),
            Self::Spec(error) => write!(f, "{error}"),
            Self::Breach(breach) => write!(f, "{breach}"),
            Self::Rests { expected, found } => {
                write!(f, "comes to rest in {found}, not in {expected}")
            }
        }
    }
}

impl std::error::Error for Fault {}

impl Scenario {
    /// Reads a scenario from its text. The version is looked at before anything else.
    ///
    /// # Errors
    /// Where the text is malformed, or its version.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = serde_json::from_str(text).map_err(Fault::Malformed)?;
        if version != VERSION {
            return Err(Fault::Version(version));
        }
        serde_json::from_str(text).map_err(Fault::Malformed)
    }

    /// Reads a scenario from a file.
    ///
    /// # Errors
    /// As [`Self::parse`], or that the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, Fault> {
        Self::parse(&fs::read_to_string(path).map_err(Fault::Io)?)
    }

    /// Lives the life to its rest, and an hour of silence after it. The dish comes back in either case: its log is what a person reads.
    ///
    /// # Errors
    /// The first law that breaks, or another place of rest.
    pub fn tell(&self) -> Result<Dish, (Fault, Vec<String>)> {
        let specs: Vec<&str> = self.specs.iter().map(String::as_str).collect();
        let mut dish = Dish::new(&specs, self.ttl_secs).map_err(|error| (Fault::Spec(error), Vec::new()))?;
        match self.live(&mut dish) {
            Ok(()) => Ok(dish),
            Err(fault) => Err((fault, dish.log)),
        }
    }

    fn live(&self, dish: &mut Dish) -> Result<(), Fault> {
        for op in &self.ops {
            dish.run(op).map_err(Fault::Breach)?;
        }
        dish.settle().map_err(Fault::Breach)?;
        dish.stay_silent().map_err(Fault::Breach)?;
        let found = rest(&dish.cluster);
        if found != self.rests {
            return Err(Fault::Rests { expected: self.rests.clone(), found: found.to_owned() });
        }
        let made = Cluster::record(&dish.cluster).map(|record| record.memory.serial);
        match (self.attempts, made) {
            (Some(expected), Some(made)) if expected != made => Err(Fault::Rests {
                expected: format!("{expected} attempts"),
                found: format!("{found} after {made} attempts"),
            }),
            _ => Ok(()),
        }
    }
}

/// Returns where an environment rests.
pub fn rest(cluster: &Cluster) -> &'static str {
    match (&cluster.own, Cluster::record(cluster).map(|record| &record.phase)) {
        (None, _) => "gone",
        (Some(_), None) => "nothing stored",
        (Some(_), Some(Phase::Pending)) => "Pending",
        (Some(_), Some(Phase::Deploying { .. })) => "Deploying",
        (Some(_), Some(Phase::Ready { .. })) => "Ready",
        (Some(_), Some(Phase::Failed { .. })) => "Failed",
        (Some(_), Some(Phase::Terminating { .. })) => "Terminating",
    }
}
