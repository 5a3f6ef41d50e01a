//! The second kind of machine: questions and answers that run to completion inside one process.

use super::time::Timestamp;

/// What the shell must do before it advances a dialogue again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn<A, D> {
    /// Answer this.
    Ask(A),
    /// Wait until then, or until something changes.
    Sleep {
        /// The moment to go on.
        until: Timestamp,
        /// The condition that is not met yet.
        unmet: &'static str,
    },
    /// Nothing more; this came of it.
    Done(D),
}
