//! Validated names. What has one of these types fits where Kubernetes wants it.
//!
//! Sources: RFC 1123 labels (63 characters), label values (63), Helm releases (53).

use crate::job::Op;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Characters of a DNS label (RFC 1123), and of a label's value.
pub const LABEL_MAX: usize = 63;
/// Characters of a Helm release name; Helm appends a revision within 63.
pub const RELEASE_MAX: usize = 53;
/// Hexadecimal digits of a Job's hash that survive any truncation: 40 bits make a clash within one namespace absurd.
const JOB_HASH_HEX: usize = 12;
/// What every workload namespace's name begins with.
pub const NAMESPACE_PREFIX: &str = "petri-env-";

/// A name that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Longer than the place takes.
    #[error("{name:?} has {length} characters, at most {max} fit")]
    TooLong {
        /// The name as computed.
        name: String,
        /// Its length in characters.
        length: usize,
        /// The bound.
        max: usize,
    },
    /// Not lower-case letters, digits and inner hyphens.
    #[error("{name:?} is not a DNS label (lower-case letters, digits, inner hyphens)")]
    NotALabel {
        /// The name as given.
        name: String,
    },
    /// Empty where something must stand.
    #[error("empty where a {what} is needed")]
    Empty {
        /// What is missing.
        what: &'static str,
    },
}

fn label(name: &str, max: usize, what: &'static str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { what });
    }
    if name.len() > max {
        return Err(NameError::TooLong { name: name.to_owned(), length: name.chars().count(), max });
    }
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(inner) || name.starts_with('-') || name.ends_with('-') {
        return Err(NameError::NotALabel { name: name.to_owned() });
    }
    Ok(())
}

fn present(name: &str, _max: usize, what: &'static str) -> Result<(), NameError> {
    if name.is_empty() { Err(NameError::Empty { what }) } else { Ok(()) }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:ident, $max:expr, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks and wraps a name.
            pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
                let name = name.into();
                $check(&name, $max, $what)?;
                Ok(Self(name))
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(name: String) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

name!(
    /// The identity of one object through its whole life.
    Uid, present, 0, "UID"
);
name!(
    /// The name of an environment's custom resource.
    EnvironmentName, present, 0, "environment name"
);
name!(
    /// The name of a component within its template; also a label's value.
    ComponentName, label, LABEL_MAX, "component name"
);
name!(
    /// The name of a SharedComponent's custom resource.
    SharedName, present, 0, "shared component name"
);
name!(
    /// The name of a namespace.
    NamespaceName, label, LABEL_MAX, "namespace name"
);
name!(
    /// The name of a Helm release.
    ReleaseName, label, RELEASE_MAX, "release name"
);
name!(
    /// The name of a Job and of its payload Secret.
    JobName, label, LABEL_MAX, "job name"
);

impl NamespaceName {
    /// Returns the twelve names an environment may bear, in the order they are tried: 8, 12, … 52 hexadecimal digits.
    pub fn candidates(environment: &Uid) -> Vec<Self> {
        let hex = hex(&Sha256::digest(environment.as_str().as_bytes()));
        (8..=52)
            .step_by(4)
            .filter_map(|n| Some(Self(format!("{NAMESPACE_PREFIX}{}", hex.get(..n)?))))
            .collect()
    }
}

impl NamespaceName {
    /// Whether this is one of the [`Self::candidates`] of an environment.
    pub fn is_candidate(&self, environment: &Uid) -> bool {
        let Some(digits) = self.0.strip_prefix(NAMESPACE_PREFIX) else { return false };
        let fits = (8..=52).contains(&digits.len()) && digits.len().is_multiple_of(4);
        fits && hex(&Sha256::digest(environment.as_str().as_bytes())).starts_with(digits)
    }
}

impl ReleaseName {
    /// Returns `<environment>-<component>`.
    pub fn of(environment: &EnvironmentName, component: &ComponentName) -> Result<Self, NameError> {
        Self::new(format!("{environment}-{component}"))
    }
}

impl ReleaseName {
    /// Returns `shared-<name>`.
    ///
    /// # Errors
    /// It does not fit, or is no DNS label.
    pub fn shared(shared: &SharedName) -> Result<Self, NameError> {
        Self::new(format!("shared-{shared}"))
    }
}

impl JobName {
    /// Returns the name of one attempt: readable in front, unique by a hash over environment, component, operation
    /// and serial behind. Too long a front is cut; the hash never is.
    pub fn of(
        environment: &Uid,
        name: &EnvironmentName,
        component: &ComponentName,
        op: Op,
        serial: u64,
    ) -> Self {
        let serial = serial.to_string();
        let identity = Digest::of(&[environment.as_str(), component.as_str(), op.as_str(), &serial]);
        let hash = identity.as_str().get(..JOB_HASH_HEX).unwrap_or_default();
        let front = format!("petri-{}-{name}-{component}", op.as_str()).replace('.', "-");
        let kept = front.get(..front.len().min(LABEL_MAX - JOB_HASH_HEX - 1)).unwrap_or("petri");
        Self(format!("{}-{hash}", kept.trim_end_matches('-')))
    }
}

/// A SHA-256 over parts, in hexadecimal. Two texts are equal exactly when their digests are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Hashes the parts, each framed by its length, so that moving a border changes the digest.
    pub fn of(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        Self(hex(&hash.finalize()))
    }

    /// Returns the 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first ten digits, for people.
    pub fn short(&self) -> &str {
        self.0.get(..10).unwrap_or(&self.0)
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(text: &str) -> Uid {
        Uid::new(text).unwrap()
    }

    #[test]
    fn an_environment_has_twelve_candidate_names_that_fit() {
        let names = NamespaceName::candidates(&uid("0b1c"));
        assert_eq!(names.len(), 12);
        assert!(names.iter().all(|name| NamespaceName::new(name.as_str()).is_ok()));
        assert!(names.windows(2).all(|pair| pair[1].as_str().starts_with(pair[0].as_str())));
        assert_ne!(names[0], NamespaceName::candidates(&uid("0b1d"))[0]);
    }

    #[test]
    fn a_job_name_fits_and_differs_by_serial_and_operation_however_long_its_parts() {
        let env = EnvironmentName::new("e.".repeat(100) + "e").unwrap();
        let component = ComponentName::new("c".repeat(63)).unwrap();
        let name = |op, serial| JobName::of(&uid("u"), &env, &component, op, serial);
        for one in [name(Op::Deploy, 1), name(Op::Undeploy, u64::MAX)] {
            assert!(JobName::new(one.as_str()).is_ok(), "{one}");
        }
        assert_ne!(name(Op::Deploy, 1), name(Op::Deploy, 2));
        assert_ne!(name(Op::Deploy, 1).as_str()[60..], name(Op::Undeploy, 1).as_str()[60..]);
    }

    #[test]
    fn a_release_name_that_does_not_fit_is_refused_with_its_length() {
        let env = EnvironmentName::new("e".repeat(50)).unwrap();
        let refused = ReleaseName::of(&env, &ComponentName::new("abc").unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), format!("\"{env}-abc\" has 54 characters, at most 53 fit"));
        assert!(ReleaseName::of(&env, &ComponentName::new("ab").unwrap()).is_ok());
    }

    #[test]
    fn names_that_are_no_labels_are_refused() {
        for bad in ["", "A", "a_b", "-a", "a-", "ä", &"a".repeat(64)] {
            assert!(ComponentName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_digest_knows_where_its_parts_end() {
        assert_ne!(Digest::of(&["ab", "c"]), Digest::of(&["a", "bc"]));
    }
}
