//! The shipped loop in a simulated cluster: fault-free lives, and the same lives with a crash at every ask.

mod crash;
mod pair;
mod seeded;

/// A chain of three.
const CHAIN: &str = "a:1; b:1<-a; c:1<-b";
/// Four components in a diamond.
const DIAMOND: &str = "a:1; b:1<-a; c:1<-a; d:1<-b c";
