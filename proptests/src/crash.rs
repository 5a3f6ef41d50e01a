//! One life — create, become ready, change, be deleted, be gone — and the same life with faults at chosen asks.

use crate::{
    dish::{Dish, Op, cluster::Cluster, replica::Fault},
    laws::{Breach, require},
};
use petri_machines::{environment::Phase, kernel::cycle::Ask};

/// Asks after which a life is taken for endless.
const ASKS_MAX: usize = 5_000;

/// Where a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The n-th ask of the life.
    Ask(usize),
    /// The n-th write of the life.
    Write(usize),
}

/// One life, as far as it got.
#[derive(Debug)]
pub struct Life {
    /// The dish.
    pub dish: Dish,
    /// Asks so far.
    pub asks: usize,
    /// Writes so far, tried or done.
    pub writes: usize,
    faults: Vec<(At, Fault)>,
}

/// Lives the life. `specs` has two entries: what is asked for first, and what then.
///
/// # Errors
/// A broken invariant, or another end than that of a life without faults; with the whole life.
pub fn live(specs: &[&str], faults: &[(At, Fault)]) -> Result<Life, Breach> {
    let dish = Dish::new(specs, None).map_err(|error| Breach { law: "bounds", what: error.to_string() })?;
    let mut life = Life { dish, asks: 0, writes: 0, faults: faults.to_vec() };
    // The laws are asked of the life without faults; the others see hardly any other world.
    life.dish.asks_laws = faults.is_empty();
    match life.through() {
        Ok(()) => Ok(life),
        Err(breach) => {
            let what =
                format!("specs {specs:?}, faults {faults:?}\n{}\n{}", breach.what, life.dish.log.join("\n"));
            Err(Breach { what, ..breach })
        }
    }
}

impl Life {
    fn through(&mut self) -> Result<(), Breach> {
        for (act, op) in [None, Some(Op::Spec { spec: 1 }), Some(Op::Delete)].into_iter().enumerate() {
            if let Some(op) = op {
                self.dish.run(&op)?;
            }
            self.act()?;
            self.check(act)?;
        }
        Ok(())
    }

    /// Lets everything proceed; the clock runs only when nothing else does.
    fn act(&mut self) -> Result<(), Breach> {
        loop {
            while self.dish.operator.is_told(&self.dish.cluster) || self.dish.operator.is_running() {
                let fault = self.fault();
                self.dish.run(&Op::Step { fault })?;
            }
            if !self.dish.progress()? && self.dish.is_at_rest() {
                return Ok(());
            }
            if !self.dish.operator.is_told(&self.dish.cluster) {
                self.dish.pass_time();
            }
            require("converges", self.asks < ASKS_MAX, || format!("not within {ASKS_MAX} asks"))?;
        }
    }

    /// Counts the next ask and returns what goes wrong at it.
    fn fault(&mut self) -> Option<Fault> {
        let is_write = matches!(self.dish.operator.pending(), Some(Ask::Store { .. } | Ask::Apply(_)));
        let (ask, write) = (At::Ask(self.asks), is_write.then_some(At::Write(self.writes)));
        self.asks += 1;
        self.writes += usize::from(is_write);
        self.faults.iter().find(|(at, _)| *at == ask || Some(*at) == write).map(|(_, fault)| *fault)
    }

    fn check(&self, act: usize) -> Result<(), Breach> {
        let law = "ends where a life without faults does";
        let Dish { cluster, specs, .. } = &self.dish;
        let record = Cluster::record(cluster);
        let wanted = specs.get(act).and_then(|spec| spec.as_ref().ok()).map(|plan| plan.digest.clone());
        let ready = |plan| record.is_some_and(|record| record.phase == Phase::Ready { plan });
        let ends = match wanted {
            Some(plan) => ready(plan),
            None => cluster.own.is_none() && cluster.spaces.is_empty(),
        };
        require(law, ends, || format!("act {act} ended in {record:?}"))?;
        let children = record.into_iter().flat_map(|record| record.memory.components.values());
        let charged =
            children.map(|child| child.deploy_attempts + child.undeploy_attempts).max().unwrap_or(0);
        require("no crash is charged to a component", charged == 0, || {
            format!("{charged} attempts in act {act}")
        })
    }
}

/// Strikes one life after the effect of every ask, and loses the answer to every ask. A crash before an ask is one
/// after the ask before it. Returns how many lives there were.
///
/// # Errors
/// As [`live`], and any write of the life without faults that changes nothing.
pub fn everywhere(specs: &[&str]) -> Result<usize, Breach> {
    let quiet = live(specs, &[])?;
    let idle = quiet.dish.idle_writes;
    require("every write changes something", idle == 0, || {
        format!("{idle} did not\n{}", quiet.dish.log.join("\n"))
    })?;
    for ask in 0..quiet.asks {
        for fault in [Fault::CrashAfter, Fault::Lost] {
            live(specs, &[(At::Ask(ask), fault)])?;
        }
    }
    Ok(1 + 2 * quiet.asks)
}

/// Strikes one life twice, at every pair of writes, in every combination of before, after and lost.
///
/// # Errors
/// As [`live`].
pub fn pairs(specs: &[&str]) -> Result<usize, Breach> {
    const KINDS: [Fault; 3] = [Fault::CrashBefore, Fault::CrashAfter, Fault::Lost];
    let writes = live(specs, &[])?.writes;
    let mut lives = 0;
    for first in 0..writes {
        // The first fault repeats some writes: the second may strike those too.
        for second in first + 1..writes + 8 {
            for one in KINDS {
                for other in KINDS {
                    live(specs, &[(At::Write(first), one), (At::Write(second), other)])?;
                    lives += 1;
                }
            }
        }
    }
    Ok(lives)
}
