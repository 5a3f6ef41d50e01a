//! The atlas: for each machine the map of its transitions, as the explorer took them.
//!
//! A row is (phase, signal) → where it leads and what is asked for there. Committed as Markdown beside the machines, and
//! compared with what exploring finds now: `ATLAS=write` writes it anew.

use crate::laws::{blindness::Blindness, component::Alone, slice::Alone as AloneSlice};
use petri_machines::{
    component::{self, Phase as Child},
    environment::{Environment, Record, World},
    kernel::{Machine, Outbox},
    shared::{self, Shared},
    slice,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Debug, Write as _},
    fs,
    path::PathBuf,
};

/// What one signal comes to in one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Where it leads; the phase itself for standing still.
    pub leads: BTreeSet<&'static str>,
    /// The commands of the rest.
    pub commands: BTreeSet<String>,
}

/// The map of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Atlas(pub BTreeMap<(&'static str, &'static str), Row>);

impl Atlas {
    /// Follows an environment from a sight, with everything seen and with each fact unknown.
    pub fn environment(&mut self, record: &Record, world: &World) {
        self.follow_environment(record, world);
        for blindness in Blindness::all(record, world) {
            self.follow_environment(record, &blindness.of(world));
        }
    }

    fn follow_environment(&mut self, record: &Record, world: &World) {
        let hear =
            |record: &Record| Environment::hear(&mut record.clone(), world, &mut Outbox::default()).name();
        let phase = |record: &Record| record.phase.clone();
        self.follow::<Environment, _>(record, world, hear, phase, |record| record.phase.name());
    }

    /// Follows a component from a sight.
    pub fn component(&mut self, record: &component::Record, world: &component::World) {
        let hear = |record: &component::Record| component::Signal::read(record, world).name();
        let phase = |record: &component::Record| record.phase.clone();
        self.follow::<Alone, Child>(record, world, hear, phase, |record| record.phase.name());
    }

    /// Follows a slice of a shared component from a sight.
    pub fn slice(&mut self, record: &slice::Record, world: &slice::World) {
        let hear = |record: &slice::Record| slice::Signal::read(record, world).name();
        let phase = |record: &slice::Record| record.phase.clone();
        self.follow::<AloneSlice, _>(record, world, hear, phase, |record| record.phase.name());
    }

    /// Follows a shared component from a sight.
    pub fn shared(&mut self, record: &shared::Record, world: &shared::World) {
        let hear = |record: &shared::Record| shared::Signal::read(record, world).name();
        let phase = |record: &shared::Record| record.phase.clone();
        self.follow::<Shared, _>(record, world, hear, phase, |record| record.phase.name());
    }

    fn follow<M: Machine, P: PartialEq>(
        &mut self,
        record: &M::Phase,
        world: &M::World,
        hear: impl Fn(&M::Phase) -> &'static str,
        phase: impl Fn(&M::Phase) -> P,
        name: impl Fn(&M::Phase) -> &'static str,
    ) {
        let mut record = record.clone();
        for _ in 0..petri_machines::kernel::limits::HOPS_MAX {
            let signal = hear(&record);
            let next = M::dispatch(record.clone(), world, &mut Outbox::default());
            let row = self.0.entry((name(&record), signal)).or_default();
            row.leads.insert(name(&next));
            if phase(&next) == phase(&record) {
                let commands = M::step(record, world).map(|step| step.commands).unwrap_or_default();
                row.commands.extend(commands.iter().map(kind));
                return;
            }
            record = next;
        }
    }

    /// Takes over what another atlas has.
    pub fn merge(&mut self, other: Self) {
        for (key, row) in other.0 {
            let own = self.0.entry(key).or_default();
            own.leads.extend(row.leads);
            own.commands.extend(row.commands);
        }
    }

    /// Returns the transitions to another phase.
    pub fn moves(&self) -> BTreeMap<(&'static str, &'static str), BTreeSet<&'static str>> {
        let mut moves: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for ((from, signal), row) in &self.0 {
            for to in row.leads.iter().filter(|to| *to != from) {
                moves.entry((*from, *to)).or_default().insert(*signal);
            }
        }
        moves
    }

    /// Writes the map for people, with a picture that GitHub draws.
    pub fn markdown(&self, machine: &str, about: &str) -> String {
        let mut text = format!("# The map of {machine}\n\n{about}\n\n```mermaid\nstateDiagram-v2\n");
        for ((from, to), signals) in self.moves() {
            let signals: Vec<&str> = signals.into_iter().collect();
            let _ = writeln!(text, "    {from} --> {to}: {}", signals.join(", "));
        }
        text.push_str("```\n\n| phase | signal | leads to | commands at rest |\n|---|---|---|---|\n");
        for ((phase, signal), row) in &self.0 {
            let leads: Vec<&str> =
                row.leads.iter().map(|to| if to == phase { "stays" } else { *to }).collect();
            let commands: Vec<&str> = row.commands.iter().map(String::as_str).collect();
            let _ = writeln!(text, "| {phase} | {signal} | {} | {} |", leads.join(", "), commands.join(", "));
        }
        text
    }

    /// Compares the committed map with this one, or writes it when `ATLAS` says so. Returns whether it is current.
    pub fn is_current(&self, machine: &str, about: &str) -> bool {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let path = root.join("machines/atlas").join(format!("{machine}.md"));
        let text = self.markdown(machine, about);
        if std::env::var_os("ATLAS").is_some_and(|wish| wish == "write") {
            return fs::write(path, text).is_ok();
        }
        fs::read_to_string(path).is_ok_and(|found| found == text)
    }
}

/// The name of a command, without what it is about.
fn kind(command: &impl Debug) -> String {
    let text = format!("{command:?}");
    let inner = text.strip_prefix("Cleanup(").unwrap_or(&text);
    inner.chars().take_while(char::is_ascii_alphanumeric).collect()
}
