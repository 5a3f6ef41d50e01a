//! What may happen next to one member of a world: an environment or a shared component. The rest of the cluster is as it
//! is given, whole or reduced to what is looked at.

use super::super::{
    apply,
    cluster::{Cluster, Shared},
    oracle::{self, Counts},
    pass::{EnvironmentPass, Next, SharedPass, is_listed},
    state::{BASE, Budget, Frozen},
};
use crate::laws::Breach;
use petri_machines::{
    environment::{self, Command, Sharing, Unsharing},
    kernel::cycle::Ask,
    names::{EnvironmentName, JobName, SharedName, Uid},
};
use std::{
    collections::HashSet,
    fmt::{self, Debug, Write as _},
    hash::{DefaultHasher, Hasher as _},
};

/// An edge that is taken in peace leads on; the others are what may happen besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    Peace,
    User,
    Fault,
}

const FREE: Budget = Budget { faults: 0, mishaps: 0, deletions: 0 };
const FAULT: Budget = Budget { faults: 1, ..FREE };
const MISHAP: Budget = Budget { mishaps: 1, ..FREE };
const DELETION: Budget = Budget { deletions: 1, ..FREE };

/// One thing that may happen.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) maker: Maker,
    pub(super) what: String,
    pub(super) cost: Budget,
    pub(super) after: Cluster,
    /// What an operator freezes before.
    pub(super) frozen: Option<Frozen>,
}

/// The laws that were asked on the way.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The sights of which all laws were asked, by hash.
    pub(super) sights: HashSet<u64>,
    /// How often each invariant was asked.
    pub(super) counts: Counts,
}

impl Asked {
    /// Whether the laws were not asked of this sight yet.
    fn is_news(&mut self, ask: &impl Debug, answer: &impl Debug) -> bool {
        struct Fed<'a>(&'a mut DefaultHasher);
        impl fmt::Write for Fed<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        let mut hasher = DefaultHasher::new();
        let _ = write!(Fed(&mut hasher), "{ask:?}{answer:?}");
        self.sights.insert(hasher.finish())
    }
}

/// Finds the moves of one member.
pub(super) struct Moves<'a> {
    from: &'a Cluster,
    asked: &'a mut Asked,
    /// What was found.
    pub(super) all: Vec<Move>,
    /// When the operator wants to look at it again.
    pub(super) wake: Option<u64>,
}

impl<'a> Moves<'a> {
    /// Begins with none.
    pub(super) fn new(from: &'a Cluster, asked: &'a mut Asked) -> Self {
        Self { from, asked, all: Vec::new(), wake: None }
    }

    /// All that may happen to an environment.
    pub(super) fn of_environment(&mut self, name: &EnvironmentName, uid: &Uid) -> Result<(), Breach> {
        if let Some(own) = self.from.environments.get(name) {
            self.environment_pass(name, false)?;
            self.environment_pass(name, true)?;
            if !own.deletion {
                let mut after = self.from.clone();
                match after.environments.get_mut(name).filter(|own| own.finalizer) {
                    Some(own) => (own.deletion, own.version) = (true, own.version + 1),
                    None => drop(after.environments.remove(name)),
                }
                self.add(Maker::User, &format!("delete {name}"), DELETION, after)?;
            }
        }
        self.jobs(uid)
    }

    /// All that may happen to a shared component.
    pub(super) fn of_shared(&mut self, name: &SharedName, uid: &Uid) -> Result<(), Breach> {
        if let Some(own) = self.from.shared.get(name) {
            self.shared_pass(name, false)?;
            self.shared_pass(name, true)?;
            if !own.deletion {
                let mut after = self.from.clone();
                match after.shared.get_mut(name).filter(|own| own.finalizer) {
                    Some(own) => (own.deletion, own.version) = (true, own.version + 1),
                    None => drop(after.shared.remove(name)),
                }
                self.add(Maker::User, &format!("delete {name}"), DELETION, after)?;
            }
            let let_go = own.roster.abandoned.first().map(|one| one.uid.clone());
            if let_go.is_some() && own.forget != let_go {
                let mut after = self.from.clone();
                after.forgotten.extend(let_go.clone());
                let (forget, version) = (let_go, own.version + 1);
                after.shared.insert(name.clone(), Shared { forget, version, ..own.clone() });
                self.add(Maker::User, &format!("forget at {name}"), FREE, after)?;
            }
        }
        self.jobs(uid)
    }

    fn add(&mut self, maker: Maker, what: &str, cost: Budget, after: Cluster) -> Result<(), Breach> {
        oracle::witness(self.from, &after, &mut self.asked.counts)
            .map_err(|breach| Breach { what: format!("{what}\n{}", breach.what), ..breach })?;
        self.all.push(Move { maker, what: what.to_owned(), cost, after, frozen: None });
        Ok(())
    }

    fn environment_pass(&mut self, name: &EnvironmentName, blind: bool) -> Result<(), Breach> {
        let (mut cluster, mut said) = (self.from.clone(), String::new());
        let (mut next, mut pass) = (Next::Asks, EnvironmentPass::begin()?);
        while next == Next::Asks {
            if let Some(asked) = pass.frozen(name) {
                let what = format!("{name} freezes before {:?}", asked.command);
                self.add(Maker::Fault, &what, MISHAP, cluster.clone())?;
                self.all.last_mut().into_iter().for_each(|freezes| freezes.frozen = Some(asked.clone()));
            }
            if let Ask::Apply(command) = &pass.ask {
                self.asked.counts.asked(command);
            }
            let (before, alone) = (cluster.clone(), is_alone(&pass.ask));
            let (answer, what) = pass.answer(&mut cluster, name, blind)?;
            if self.asked.is_news(&pass.ask, &answer) {
                pass.laws(&answer)?;
            }
            self.told(what, &mut said, (&before, &cluster), alone)?;
            next = pass.go_on(answer)?;
        }
        go_on_alone(&mut cluster, name, blind)?;
        self.over(said, cluster, next, blind)
    }

    fn shared_pass(&mut self, name: &SharedName, blind: bool) -> Result<(), Breach> {
        let (mut cluster, mut said) = (self.from.clone(), String::new());
        let (mut next, mut pass) = (Next::Asks, SharedPass::begin()?);
        while next == Next::Asks {
            let before = cluster.clone();
            let (answer, what) = pass.answer(&mut cluster, name, blind)?;
            if self.asked.is_news(&pass.ask, &answer) {
                pass.laws(&answer)?;
            }
            self.told(what, &mut said, (&before, &cluster), false)?;
            next = pass.go_on(answer)?;
        }
        self.over(said, cluster, next, blind)
    }

    fn over(&mut self, said: String, cluster: Cluster, next: Next, blind: bool) -> Result<(), Breach> {
        if !said.is_empty() {
            let maker = if blind { Maker::Fault } else { Maker::Peace };
            self.add(maker, &said, if blind { MISHAP } else { FREE }, cluster)?;
        }
        if let (Next::Over(Some(wake)), false) = (next, blind) {
            self.wake = Some(wake.at.0.max(BASE + 1));
        }
        Ok(())
    }

    /// Takes note of a write; a crash may come right after it, but for what an environment does alone.
    fn told(
        &mut self,
        what: Option<String>,
        said: &mut String,
        (before, after): (&Cluster, &Cluster),
        alone: bool,
    ) -> Result<(), Breach> {
        let Some(what) = what else { return Ok(()) };
        let _ = writeln!(said, "  {what}");
        oracle::witness(before, after, &mut self.asked.counts)?;
        if after == before || alone {
            return Ok(());
        }
        self.add(Maker::Fault, said, MISHAP, after.clone())
    }

    fn jobs(&mut self, owner: &Uid) -> Result<(), Breach> {
        for (name, job) in self.from.jobs.iter().filter(|(_, job)| job.owner == *owner) {
            let mut after = self.from.clone();
            if job.deleting {
                after.jobs.remove(name);
                self.add(Maker::Peace, &format!("{name} is gone"), FREE, after)?;
                continue;
            }
            if job.ended.is_some() {
                continue;
            }
            let mut failed = self.from.clone();
            ends(&mut after, name, true);
            after.effect(job, false);
            self.add(Maker::Peace, &format!("{name} succeeds"), FREE, after)?;
            ends(&mut failed, name, false);
            for works in [false, true] {
                let mut after = failed.clone();
                if works {
                    after.effect(job, true);
                }
                self.add(Maker::Fault, &format!("{name} fails, its work done: {works}"), FAULT, after)?;
            }
        }
        Ok(())
    }
}

/// Makes the write of an operator that thaws.
pub(super) fn thaw(from: &Cluster, frozen: &Frozen, asked: &mut Asked) -> Result<(Cluster, String), Breach> {
    let Frozen { name, read, command, .. } = frozen;
    let mut after = from.clone();
    let done = apply::environment(&mut after, name, &mut read.clone(), command);
    let what = format!("thawed {name} makes {command:?}: {done:?}");
    oracle::witness(from, &after, &mut asked.counts)?;
    Ok((after, what))
}

fn ends(cluster: &mut Cluster, name: &JobName, well: bool) {
    if let Some(job) = cluster.jobs.get_mut(name) {
        job.ended = Some(well);
    }
}

/// Takes the rest of what an environment does alone in one go.
fn go_on_alone(cluster: &mut Cluster, name: &EnvironmentName, blind: bool) -> Result<(), Breach> {
    const PASSES_MAX: usize = 12;
    for _ in 0..PASSES_MAX {
        let before = cluster.clone();
        let mut next = before.clone();
        let mut pass = EnvironmentPass::begin()?;
        let mut alone = true;
        loop {
            let (answer, _) = pass.answer(&mut next, name, blind)?;
            alone &= !matches!(pass.ask, Ask::Apply(_)) || is_alone(&pass.ask);
            if pass.go_on(answer)? != Next::Asks {
                break;
            }
        }
        if !alone || next == before || !has_work_alone(&before, &next, name) {
            return Ok(());
        }
        *cluster = next;
    }
    Ok(())
}

/// Whether an ask is a write within an environment's own namespace, or to the environment itself.
fn is_alone(ask: &Ask<environment::Environment>) -> bool {
    match ask {
        Ask::Apply(command) => match command {
            Command::Share(share) => matches!(share, Sharing::Bind { .. }),
            Command::Cleanup(environment::Cleanup::Unshare(unshare)) => {
                matches!(unshare, Unsharing::Unbind { .. })
            }
            _ => true,
        },
        Ask::Read | Ask::Observe(_) | Ask::Store { .. } | Ask::Notify(_) => false,
    }
}

/// Whether a pass did anything alone: a pass that only stored is a step of its own.
fn has_work_alone(before: &Cluster, after: &Cluster, name: &EnvironmentName) -> bool {
    let own = |cluster: &Cluster| {
        let own = cluster.environments.get(name)?;
        Some((own.finalizer, own.space, own.bindings.clone()))
    };
    own(before) != own(after)
}

impl EnvironmentPass {
    /// The write that an operator may freeze before, if it is about to make one.
    fn frozen(&self, name: &EnvironmentName) -> Option<Frozen> {
        let Ask::Apply(command) = &self.ask else { return None };
        let at = match command {
            Command::Share(Sharing::Register { at, .. })
            | Command::Cleanup(environment::Cleanup::Unshare(
                Unsharing::Release { at, .. } | Unsharing::Abandon { at, .. },
            )) => at.shared.clone(),
            _ => return None,
        };
        let read = self.read().cloned()?;
        is_listed(command).then(|| Frozen { name: name.clone(), read, command: command.clone(), at })
    }
}
