//! The planted bugs and what caught each of them: how good the oracle is, as data.
//!
//! `mutations.json` is written by people, `kills.json` by `cargo mutate --write`.

use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::PathBuf,
};

/// One planted bug.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mutation {
    /// What goes wrong, as a sentence.
    pub name: String,
    /// The file, below the workspace.
    pub file: PathBuf,
    /// The text that stands there exactly once.
    pub from: String,
    /// What stands there instead.
    pub to: String,
    /// What goes with it, in the same file: each text and what stands there instead.
    #[serde(default)]
    pub also: Vec<(String, String)>,
    /// Why nothing can catch it, for one that changes nothing that anybody could see.
    #[serde(default)]
    pub survives: Option<String>,
}

impl Mutation {
    /// Plants the bug into the text of its file; nothing, if it does not fit exactly once.
    #[must_use]
    pub fn plant(&self, text: &str) -> Option<String> {
        let also = self.also.iter().map(|(from, to)| (from, to));
        std::iter::once((&self.from, &self.to)).chain(also).try_fold(text.to_owned(), |text, (from, to)| {
            (from != to && text.matches(from.as_str()).count() == 1).then(|| text.replace(from.as_str(), to))
        })
    }
}

/// What caught one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kill {
    /// The laws and invariants that broke.
    pub laws: BTreeSet<String>,
    /// Tests and stored scenarios that failed, each with the test program it is in.
    pub tests: BTreeMap<String, String>,
}

/// What caught each, by the bug's name.
pub type Kills = BTreeMap<String, Kill>;

fn package(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Reads the list.
///
/// # Errors
/// The file, or what in it cannot be read.
pub fn mutations() -> io::Result<Vec<Mutation>> {
    Ok(serde_json::from_str(&fs::read_to_string(package("mutations.json"))?)?)
}

/// Reads what caught them.
///
/// # Errors
/// The file, or what in it cannot be read.
pub fn kills() -> io::Result<Kills> {
    Ok(serde_json::from_str(&fs::read_to_string(package("kills.json"))?)?)
}

/// Writes what caught them.
///
/// # Errors
/// The file.
pub fn write_kills(kills: &Kills) -> io::Result<()> {
    fs::write(package("kills.json"), serde_json::to_string_pretty(kills)? + "\n")
}
