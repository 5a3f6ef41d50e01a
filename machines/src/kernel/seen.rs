//! The difference between "it is not there" and "nobody knows".

/// Why a fact could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ignorance {
    /// The cache that holds it has not been filled yet.
    Unsynced,
    /// The read failed or timed out.
    Failed,
    /// The read was refused for lack of rights.
    Forbidden,
    /// Nobody asked: the phase does not need it.
    NotAsked,
}

/// A fact, or the reason why it is missing.
///
/// `Known` of an absent thing is evidence; `Unknown` never is, and never leads to a destructive command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seen<T> {
    /// The fact as it was read.
    Known(T),
    /// The fact could not be read.
    Unknown(Ignorance),
}

impl<T> Seen<T> {
    /// Returns the fact if there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(fact) => Some(fact),
            Self::Unknown(_) => None,
        }
    }
}
