//! Two operators on one cluster and one Lease, interleaved at every ask.
//!
//! The Lease is renewed and taken by compare-and-swap, as the shipped loop in `leader.rs` does; who leads stops every
//! effect at its own deadline, which lies before the moment at which another may take over. A Lease is a hint,
//! though: with [`Pair::heeds_the_lease`] off, one that goes on with what it saw long ago does no harm either, as long as
//! the environment lives. After that the Lease is what guards: a namespace that a stale operator creates when the object
//! is gone already has no owner that could fence it.

use super::{
    Dish, Op,
    replica::{Fault, Replica},
    server::Refused,
};
use crate::laws::{Breach, Verdict, require};
use petri_machines::kernel::cycle::Ask;

/// Seconds that a Lease lasts.
pub const LEASE_SECS: u64 = 15;
/// Seconds before its end at which the holder stops.
pub const MARGIN_SECS: u64 = 5;

/// The Lease, as the API server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Lease {
    /// Who holds it.
    pub holder: Option<usize>,
    /// When it was renewed last.
    pub renewed_at: u64,
    /// Rises with every write.
    pub resource_version: u64,
}

impl Lease {
    /// Writes it on condition that it is still of this version.
    ///
    /// # Errors
    /// `Conflict`.
    pub fn replace(&mut self, version: u64, who: usize, now: u64) -> Result<(), Refused> {
        if self.resource_version != version {
            return Err(Refused::Conflict);
        }
        *self = Self { holder: Some(who), renewed_at: now, resource_version: version + 1 };
        Ok(())
    }

    /// Whether somebody holds it at this moment.
    pub fn is_held_by(&self, who: usize, now: u64) -> bool {
        self.holder == Some(who) && now < self.renewed_at + LEASE_SECS
    }
}

/// What one operator knows of the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Claim {
    /// Until when it may act.
    deadline: u64,
    /// The version it saw last, and when it saw it first: who is not the holder counts from there.
    seen: (u64, u64),
}

/// One thing that happens to the pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// One of them reads the Lease and renews or takes it if it can; the answer may be lost.
    Renew {
        /// Which.
        who: usize,
        /// Whether the write happens and the answer does not come.
        lost: bool,
    },
    /// One of them answers one ask.
    Step {
        /// Which.
        who: usize,
        /// What goes wrong.
        fault: Option<Fault>,
    },
    /// Anything else.
    Happens(Op),
}

/// Two operators.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The cluster, the oracle and the first operator.
    pub dish: Dish,
    /// The Lease.
    pub lease: Lease,
    /// Whether they stop at their deadlines.
    pub heeds_the_lease: bool,
    other: Replica,
    claims: [Claim; 2],
}

impl Pair {
    /// Returns a pair on one new environment.
    ///
    /// # Errors
    /// A line that is no specification.
    pub fn new(specs: &[&str], heeds_the_lease: bool) -> Result<Self, Breach> {
        let dish = Dish::new(specs, None);
        let dish = dish.map_err(|error| Breach { law: "bounds", what: error.to_string() })?;
        let (lease, other, claims) = (Lease::default(), Replica::default(), [Claim::default(); 2]);
        Ok(Self { dish, lease, heeds_the_lease, other, claims })
    }

    /// Lets one thing happen.
    ///
    /// # Errors
    /// The law or invariant that was broken.
    pub fn run(&mut self, act: &Act) -> Verdict {
        match act {
            Act::Renew { who, lost } => {
                self.renew(*who, *lost);
                Ok(())
            }
            Act::Step { who, fault } => self.step(*who, *fault),
            Act::Happens(op) => self.dish.run(op).map(drop),
        }
    }

    /// The deadline counts from before the write was sent; what was lost was never granted.
    fn renew(&mut self, who: usize, lost: bool) {
        let now = self.dish.cluster.now;
        let claim = &mut self.claims[who];
        if claim.seen.0 != self.lease.resource_version {
            claim.seen = (self.lease.resource_version, now);
        }
        let free = self.lease.holder.is_none_or(|holder| holder == who) || now >= claim.seen.1 + LEASE_SECS;
        if !free {
            return;
        }
        let written = self.lease.replace(claim.seen.0, who, now);
        claim.seen = (self.lease.resource_version, now);
        if written.is_ok() && !lost {
            claim.deadline = now + LEASE_SECS - MARGIN_SECS;
        }
    }

    fn step(&mut self, who: usize, fault: Option<Fault>) -> Verdict {
        if who == 1 {
            std::mem::swap(&mut self.dish.operator, &mut self.other);
        }
        let result = self.step_of(who, fault);
        if who == 1 {
            std::mem::swap(&mut self.dish.operator, &mut self.other);
        }
        result
    }

    fn step_of(&mut self, who: usize, fault: Option<Fault>) -> Verdict {
        let now = self.dish.cluster.now;
        let writes = matches!(self.dish.operator.pending(), Some(Ask::Store { .. } | Ask::Apply(_)));
        if writes && self.heeds_the_lease && now >= self.claims[who].deadline {
            // The hard stop: the cycle is not gone on with.
            self.dish.operator.restart();
            return Ok(());
        }
        if writes && self.heeds_the_lease {
            self.dish.history.s9_acts_only_while_it_leads(&self.lease, who, now)?;
        }
        self.dish.run(&Op::Step { fault }).map(drop)
    }

    /// One of them dies, faults end, and the other brings everything to its end.
    ///
    /// # Errors
    /// As a life alone.
    pub fn end(&mut self, survivor: usize) -> Verdict {
        if survivor == 1 {
            std::mem::swap(&mut self.dish.operator, &mut self.other);
        }
        if self.dish.cluster.own.is_none() && !self.heeds_the_lease {
            return Ok(());
        }
        self.dish.run(&Op::Hold { held: false })?;
        self.dish.settle()?;
        self.dish.stay_silent()?;
        self.dish.run(&Op::Delete)?;
        self.dish.settle()?;
        let gone = self.dish.cluster.own.is_none() && self.dish.cluster.traces().is_empty();
        require("ends gone", gone, || format!("{:?}", self.dish.cluster.own))
    }
}

/// One operator stands still after any of its asks, for as many asks of the other as there are until the environment is
/// ready; then it goes on with what it saw. Returns how many lives there were.
///
/// # Errors
/// The first life in which anything breaks, with all of it.
pub fn stale_everywhere(spec: &str) -> Result<usize, Breach> {
    const ASKS_OF_A_CYCLE: usize = 8;
    let mut lives = 0;
    for stands in 1..ASKS_OF_A_CYCLE {
        let mut goes = 0;
        while live(spec, stands, goes)? {
            (goes, lives) = (goes + 1, lives + 1);
        }
    }
    Ok(lives)
}

/// Returns whether the other had as many asks to answer.
fn live(spec: &str, stands: usize, goes: usize) -> Result<bool, Breach> {
    let mut pair = Pair::new(&[spec], false)?;
    pair.dish.asks_laws = false;
    let told = |pair: &Pair, breach: Breach| Breach {
        what: format!(
            "stands after {stands}, goes on after {goes}\n{}\n{}",
            breach.what,
            pair.dish.log.join("\n")
        ),
        ..breach
    };
    let result = pair.live(stands, goes);
    result.map_err(|breach| told(&pair, breach))
}

impl Pair {
    fn live(&mut self, stands: usize, goes: usize) -> Result<bool, Breach> {
        for _ in 0..stands {
            self.step(1, None)?;
        }
        let mut done = 0;
        while done < goes {
            if self.dish.operator.is_told(&self.dish.cluster) || self.dish.operator.is_running() {
                self.step(0, None)?;
                done += 1;
            } else if !self.dish.progress()? {
                if self.dish.is_at_rest() {
                    return Ok(false);
                }
                self.dish.pass_time();
            }
        }
        self.step(1, None)?;
        while self.other.is_running() {
            self.step(1, None)?;
        }
        self.end(0)?;
        Ok(true)
    }
}
