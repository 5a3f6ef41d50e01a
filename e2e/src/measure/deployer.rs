//! What the deployer adds to helm: the time before its first call and after its last, and every request that is made.

use std::time::Duration;

use serde_json::json;

use super::figures::{Sample, note, say};
use crate::outside::{self, Operation, Outside, Ran};
use crate::petri::{Error, Petri};
use crate::proxy::Call;

const NAMESPACE: &str = "measure-deployer";
const RELEASE: &str = "measured";
/// One ConfigMap, so that nothing is waited for.
const CHART: &str = "tiny";
const DEADLINE: Duration = Duration::from_secs(120);

/// Installs, upgrades and removes one release `times` times, by a deployer outside of the cluster.
pub async fn run(petri: &Petri<'_>, times: usize) -> Result<(), Error> {
    note("deployer: a release of one object, the deployer a process of this machine");
    outside::namespace(petri.lab, NAMESPACE).await?;
    let measured = lives(petri, times).await;
    outside::remove(petri.lab, NAMESPACE).await?;
    measured
}

async fn lives(petri: &Petri<'_>, times: usize) -> Result<(), Error> {
    let line = Outside::start(petri.lab, NAMESPACE, "measure").await?;
    let mut steps = [Step::new("install"), Step::new("upgrade"), Step::new("undeploy")];
    for number in 0..times {
        for step in &mut steps {
            let operation = if step.name == "undeploy" { Operation::Undeploy } else { Operation::Deploy };
            let values = json!({"workload": false, "number": number});
            line.trap.take();
            let ran = line.run(operation, RELEASE, CHART, &values, DEADLINE, None).await?;
            if !ran.succeeded() {
                return Err(Error::Wrong(format!("{}: {}\n{}", step.name, ran.report, ran.log)));
            }
            step.add(&ran, line.trap.take());
        }
    }
    steps.iter().for_each(Step::say);
    Ok(())
}

/// One kind of operation.
struct Step {
    name: &'static str,
    before: Sample,
    after: Sample,
    whole: Sample,
    calls: Vec<Call>,
}

impl Step {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            before: Sample::default(),
            after: Sample::default(),
            whole: Sample::default(),
            calls: Vec::new(),
        }
    }

    fn add(&mut self, ran: &Ran, calls: Vec<Call>) {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        let helm = || calls.iter().filter(|call| call.by_helm);
        if let (Some(first), Some(last)) = (helm().next(), helm().filter_map(|call| call.answered).max()) {
            self.before.add(millis(first.at - ran.started));
            self.after.add(millis(ran.ended - last));
        }
        self.whole.add(millis(ran.ended - ran.started));
        self.calls = calls;
    }

    fn say(&self) {
        let name = format!("deployer_{}", self.name);
        self.before.say_median(&format!("{name}_start_to_helms_first_request"), "ms");
        self.after.say_median(&format!("{name}_helms_last_answer_to_exit"), "ms");
        self.whole.say_median(&format!("{name}_whole"), "ms");
        for (who, by_helm) in [("own", false), ("helms", true)] {
            let calls: Vec<&str> = self
                .calls
                .iter()
                .filter(|call| call.by_helm == by_helm)
                .map(|call| call.what.as_str())
                .collect();
            say(format!("{name}_{who}_requests_count"), calls.len());
            note(format!("  of these: {}", calls.join(", ")));
        }
    }
}
