//! The graphs that are measured, and what their lives left in the audit log.

use jiff::Timestamp;
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment, meta};
use serde_json::{Value, json};

use super::figures::seconds;
use super::trail::{Entry, OPERATOR};
use crate::petri::{Error, MANAGEMENT, Petri};

/// A graph of components, all of one chart.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Also the template's name.
    pub name: &'static str,
    /// Components by level.
    pub levels: &'static [&'static [&'static str]],
    /// Each has a Deployment of one pod; else a ConfigMap only.
    pub workload: bool,
    /// Folder of the chart in the deployer's image.
    pub chart: &'static str,
}

const TINY: &str = "/charts/tiny";

/// One component with one pod.
pub const ONE: Shape = Shape { name: "one", levels: &[&["a"]], workload: true, chart: TINY };
/// One component of which nothing runs: its Job is all that takes time.
pub const BARE: Shape = Shape { name: "bare", levels: &[&["a"]], workload: false, chart: TINY };
/// One component whose chart is not there.
pub const NO_CHART: Shape =
    Shape { name: "no-chart", levels: &[&["a"]], workload: false, chart: "/charts/none" };
/// Five components, each waits for the one before.
pub const CHAIN: Shape =
    Shape { name: "chain", levels: &[&["a"], &["b"], &["c"], &["d"], &["e"]], workload: true, chart: TINY };
/// Four components, two of them side by side.
pub const DIAMOND: Shape =
    Shape { name: "diamond", levels: &[&["a"], &["b", "c"], &["d"]], workload: true, chart: TINY };

impl Shape {
    /// Applies the template.
    pub async fn apply(&self, petri: &Petri<'_>) -> Result<(), Error> {
        let mut components = Vec::new();
        let mut before: &[&str] = &[];
        for level in self.levels {
            components.extend(level.iter().map(|name| self.component(name, before)));
            before = level;
        }
        let template = json!({
            "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
            "metadata": {"name": self.name, "namespace": MANAGEMENT}, "spec": {"components": components},
        });
        let template: EnvironmentTemplate =
            serde_json::from_value(template).map_err(|error| Error::Wrong(error.to_string()))?;
        petri.apply_object(&petri.templates(), &template).await?;
        Ok(())
    }

    /// Returns an environment of it.
    pub fn environment(&self, name: &str) -> EphemeralEnvironment {
        let mut environment = EphemeralEnvironment::new(name, Default::default());
        environment.metadata.namespace = Some(MANAGEMENT.to_owned());
        environment.spec.template = self.name.to_owned();
        environment
    }

    fn component(&self, name: &str, after: &[&str]) -> Value {
        let helm = json!({"path": self.chart, "valuesObject": {"workload": self.workload}});
        json!({"name": name, "dependsOn": after, "helm": helm})
    }
}

/// When what happened in one life, from the audit log.
#[derive(Debug, Clone)]
pub struct Life {
    /// The environment was created: the request's arrival.
    pub created: Timestamp,
    /// The status said Ready: the answer to that write.
    pub ready: Timestamp,
    /// Its deletion was asked for.
    pub deleted: Timestamp,
    /// Its finalizer was taken away: the answer to that write.
    pub gone: Timestamp,
    /// The namespace's deletion was asked for, and the namespace was gone.
    pub namespace: (Timestamp, Timestamp),
    /// Begin and end of each level up, in order.
    pub up: Vec<(Timestamp, Timestamp)>,
    /// Begin and end of each level down, in order.
    pub down: Vec<(Timestamp, Timestamp)>,
}

impl Life {
    /// Reads one life out of the log. `shape` must be what was deployed.
    pub fn read(entries: &[Entry], environment: &str, shape: Shape) -> Result<Self, Error> {
        let own = |entry: &&Entry| entry.name() == environment && entry.namespace() == MANAGEMENT;
        let lacks = |what: &str| Error::Wrong(format!("{environment}: the audit log shows no {what}"));
        let of = |verb: &'static str, resource: &'static str| {
            entries.iter().filter(own).filter(move |entry| entry.is(verb, resource))
        };
        let writes = of("update", "ephemeralenvironments/status").filter(|entry| entry.is_by(OPERATOR));
        let writes: Vec<&Entry> = writes.collect();
        let is_ready = |entry: &&&Entry| entry.request_object["status"]["phase"] == "Ready";
        let ready = writes.iter().find(is_ready).ok_or_else(|| lacks("Ready"))?;
        let namespace = ready.request_object["status"]["targetNamespace"].as_str().unwrap_or_default();
        // An applied object is created by a patch.
        let created = entries.iter().filter(own).find(|entry| {
            entry.is("create", "ephemeralenvironments") || entry.is("patch", "ephemeralenvironments")
        });
        let deleted = of("delete", "ephemeralenvironments").next().ok_or_else(|| lacks("deletion"))?;
        let finalizers = of("patch", "ephemeralenvironments").rfind(|entry| entry.is_by(OPERATOR));
        let namespaces = |verb: &'static str, resource: &'static str| {
            entries.iter().filter(move |entry| entry.name() == namespace && entry.is(verb, resource))
        };
        let going = namespaces("delete", "namespaces").next().ok_or_else(|| lacks("namespace's deletion"))?;
        let went =
            namespaces("update", "namespaces/finalize").next_back().ok_or_else(|| lacks("finalize"))?;
        let within: Vec<&Entry> = entries.iter().filter(|entry| entry.namespace() == namespace).collect();
        let level = |op, names: &[&str]| {
            let spans: Option<Vec<_>> =
                names.iter().map(|name| span(&within, environment, name, op, shape.workload)).collect();
            let spans = spans.ok_or_else(|| lacks(&format!("{op} Job of {names:?}, made and ended")))?;
            let begin = spans.iter().map(|span| span.0).min().ok_or_else(|| lacks("level"))?;
            let end = spans.iter().map(|span| span.1).max().ok_or_else(|| lacks("level"))?;
            Ok((begin, end))
        };
        Ok(Self {
            created: created.ok_or_else(|| lacks("creation"))?.asked,
            ready: ready.done,
            deleted: deleted.asked,
            gone: finalizers.ok_or_else(|| lacks("end"))?.done,
            namespace: (going.asked, went.done),
            up: shape.levels.iter().map(|names| level("deploy", names)).collect::<Result<_, Error>>()?,
            down: shape
                .levels
                .iter()
                .rev()
                .map(|names| level("undeploy", names))
                .collect::<Result<_, Error>>()?,
        })
    }

    /// Returns the seconds that the levels up took: what a perfect operator would wait for.
    pub fn critical_up(&self) -> f64 {
        self.up.iter().map(|(begin, end)| seconds(*begin, *end)).sum()
    }

    /// Returns the seconds that the levels down and the end of the namespace took.
    pub fn critical_down(&self) -> f64 {
        let levels: f64 = self.down.iter().map(|(begin, end)| seconds(*begin, *end)).sum();
        levels + seconds(self.namespace.0, self.namespace.1)
    }
}

/// From the request that made the Job to the report that its container ended and, up, that the pod is available.
fn span(
    within: &[&Entry],
    environment: &str,
    component: &str,
    op: &str,
    workload: bool,
) -> Option<(Timestamp, Timestamp)> {
    let ours = |entry: &&&Entry| {
        entry.label(meta::LABEL_COMPONENT) == Some(component) && entry.label(meta::LABEL_OP) == Some(op)
    };
    let made = within.iter().filter(|entry| entry.is("create", "jobs")).find(ours)?;
    let pod = format!("{}-", made.name());
    let ended = within.iter().find(|entry| entry.ends_deployer() && entry.name().starts_with(&pod))?;
    let mut end = ended.done;
    if workload && op == "deploy" {
        let release = format!("{environment}-{component}");
        let available = within.iter().find(|entry| entry.makes_available() && entry.name() == release)?;
        end = end.max(available.done);
    }
    Some((made.asked, end))
}
