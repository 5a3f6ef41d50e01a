//! The live table of environments and their components.

use std::io::IsTerminal;

use comfy_table::{Table, presets};
use petri_crds::EphemeralEnvironment;

use crate::petri::story;

/// Shows the table: drawn over itself on a terminal, and elsewhere only when it changed.
pub struct Live {
    terminal: bool,
    height: usize,
    last: String,
}

impl Default for Live {
    fn default() -> Self {
        Self { terminal: std::io::stdout().is_terminal(), height: 0, last: String::new() }
    }
}

impl Live {
    /// Draws the environments as they are.
    pub fn draw(&mut self, environments: &[EphemeralEnvironment]) {
        let stable = table(environments, false);
        if self.terminal {
            let text = table(environments, true);
            if self.height > 0 {
                print!("\x1b[{}A\x1b[J", self.height);
            }
            self.height = text.lines().count();
            println!("{text}");
        } else if stable != self.last {
            println!("{}\n", table(environments, true));
        }
        self.last = stable;
    }

    /// Leaves the last table standing; the next is drawn below it.
    pub fn end(&mut self) {
        self.height = 0;
        self.last.clear();
    }
}

fn table(environments: &[EphemeralEnvironment], ages: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["ENVIRONMENT", "COMPONENT", "LEVEL", "PHASE", "AGE", "MESSAGE"]);
    for environment in environments {
        let name = environment.metadata.name.clone().unwrap_or_default();
        let status = environment.status.clone().unwrap_or_default();
        let phase = status.phase.as_ref().map_or("-", |phase| phase.as_str()).to_owned();
        let age = if ages { age(environment) } else { String::new() };
        let (reason, message) = story(environment);
        table.add_row([
            name,
            String::new(),
            String::new(),
            phase,
            age,
            short(&format!("{reason}: {message}")),
        ]);
        for component in &status.components {
            let level = component.level.map(|level| level.to_string()).unwrap_or_default();
            let message = short(component.message.as_deref().unwrap_or(""));
            let phase = component.phase.as_str().to_owned();
            table.add_row([String::new(), component.name.clone(), level, phase, String::new(), message]);
        }
    }
    table.to_string()
}

fn age(environment: &EphemeralEnvironment) -> String {
    let Some(created) = &environment.metadata.creation_timestamp else { return String::new() };
    format!("{}s", jiff::Timestamp::now().duration_since(created.0).as_secs().max(0))
}

fn short(text: &str) -> String {
    const MESSAGE_MAX: usize = 70;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MESSAGE_MAX {
        line
    } else {
        line.chars().take(MESSAGE_MAX - 1).chain(['…']).collect()
    }
}
