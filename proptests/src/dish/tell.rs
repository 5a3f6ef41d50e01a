//! A life in lines that a person reads.

use super::{
    Op,
    nature::Progress,
    replica::{Event, Fault},
};
use petri_machines::{
    component,
    environment::{Cleanup, Command, Notice, Record},
};

/// Tells what a user, the cluster or a fault did.
pub fn op(op: &Op) -> String {
    match op {
        Op::Step { .. } | Op::Cycle => "the operator looks".to_owned(),
        Op::Settle => "everything proceeds".to_owned(),
        Op::PodStarts { component } => format!("the pod of {component} starts"),
        Op::PodSucceeds { component } => format!("the pod of {component} ends well"),
        Op::PodFails { component, reason, disrupted } => {
            let whose = if *disrupted { "is taken away" } else { "fails" };
            format!("the pod of {component} {whose}: {}", reason.as_str())
        }
        Op::Workload { component, ready } => {
            format!("the workload of {component} {}", if *ready { "serves" } else { "ceases to serve" })
        }
        Op::PodComplains { component, reason } => {
            format!("the pod of {component} cannot start: {}", reason.as_str())
        }
        Op::WorkloadComplains { component, reason } => {
            format!("a pod of the workload of {component} cannot start: {}", reason.as_str())
        }
        Op::Gateway { accepts } => {
            format!("Gateways {}", if *accepts { "accept routes" } else { "accept no route" })
        }
        Op::DeletedJobsGo => "deleted Jobs go, with their pods".to_owned(),
        Op::JobDeletedByHand { component } => format!("somebody deletes the newest Job of {component}"),
        Op::NamespacesGo => "the namespace controller makes a step".to_owned(),
        Op::NamespaceDeletedByHand => "somebody deletes the workload namespace".to_owned(),
        Op::ForeignNamespace { candidate } => format!("a stranger takes the name number {candidate}"),
        Op::Spec { spec } => format!("a user asks for specification {spec}"),
        Op::Retry { token } => format!("a user asks for a retry ({token})"),
        Op::Hold { held } => format!("a user {} it", if *held { "holds" } else { "no longer holds" }),
        Op::Delete => "a user deletes it".to_owned(),
        Op::Clock { secs } => format!("{secs} s pass"),
        Op::JobCache { lags } => {
            format!("the Job cache {}", if *lags { "stops" } else { "is current again" })
        }
        Op::MissEvents => "the news of the watches is lost".to_owned(),
        Op::Blind { read } => format!("the next read of {read:?} fails"),
        Op::Amnesia => "the stored record is erased".to_owned(),
    }
}

/// Tells what the cluster did by itself.
pub fn progress(progress: &Progress) -> String {
    match progress {
        Progress::Cleaned => "what was being deleted goes".to_owned(),
        Progress::Started => "a pod starts".to_owned(),
        Progress::Ended(outcome) => {
            format!("the {} of {} ends well", outcome.job.op.as_str(), outcome.job.component)
        }
        Progress::Served => "a workload serves".to_owned(),
    }
}

/// Tells what the operator did; reads are not worth a line.
pub fn event(event: &Event, fault: Option<Fault>) -> Option<String> {
    let line = match event {
        Event::Read | Event::Observed(_) if fault.is_none() => return None,
        Event::Read => "reads its object".to_owned(),
        Event::Observed(_) => "looks around".to_owned(),
        Event::Stored(result) => match result.as_ref() {
            Ok(record) => format!("stores   {}", record_line(record)),
            Err(refusal) => format!("cannot store: {refusal:?}"),
        },
        Event::Applied(_, one, Ok(true)) => format!("applies  {}", command(one)),
        Event::Applied(_, one, Ok(false)) => format!("applies  {} (it was so already)", command(one)),
        Event::Applied(_, one, Err(refusal)) => format!("applies  {}: {refusal:?}", command(one)),
        Event::Notified(notices) => {
            let told: Vec<String> = notices.iter().filter_map(notice).collect();
            if told.is_empty() {
                return None;
            }
            format!("says     {}", told.join("; "))
        }
        Event::Crashed => return Some("dies before its next ask is answered".to_owned()),
    };
    Some(match fault {
        None | Some(Fault::CrashBefore) => line,
        Some(Fault::CrashAfter) => format!("{line} — and dies before it hears of it"),
        Some(Fault::Lost) => format!("{line} — and never hears of it"),
    })
}

/// Returns a record as one line.
pub fn record_line(record: &Record) -> String {
    let children = record.memory.components.iter();
    let children: Vec<String> =
        children.map(|(name, child)| format!("{name}={}", child.phase.name())).collect();
    let bound = record.memory.binding.name().map_or("no namespace", |name| name.as_str());
    format!("{} in {bound} [{}]", record.phase.name(), children.join(" "))
}

/// Returns a command in a few words.
pub fn command(command: &Command) -> String {
    match command {
        Command::AddFinalizer => "add the finalizer".to_owned(),
        Command::CreateNamespace { name } => format!("create namespace {name}"),
        Command::BindOperator(_) => "bind the operator".to_owned(),
        Command::CreateDeployerAccount(_) => "create the deployer's account".to_owned(),
        Command::BindDeployer(_) => "bind the deployer".to_owned(),
        Command::CreatePayload { component, serial, .. } => {
            format!("create the payload of {component} #{serial}")
        }
        Command::CreateJob { component, serial, .. } => {
            format!("create the deploy Job of {component} #{serial}")
        }
        Command::Furnish { item, .. } => format!("furnish {item}"),
        Command::Share(share) => format!("{share:?}"),
        Command::Cleanup(cleanup) => match cleanup {
            Cleanup::Unshare(unshare) => format!("{unshare:?}"),
            Cleanup::DeleteSelf => "delete itself".to_owned(),
            Cleanup::DeletePayload { name, .. } => format!("delete the payload {name}"),
            Cleanup::DeleteJob { name, .. } => format!("delete the Job {name}"),
            Cleanup::CreateUndeployJob { component, serial, .. } => {
                format!("create the undeploy Job of {component} #{serial}")
            }
            Cleanup::Unfurnish { item, .. } => format!("remove {item}"),
            Cleanup::DeleteNamespace(namespace) => format!("delete namespace {}", namespace.name),
            Cleanup::DropFinalizer => "drop the finalizer".to_owned(),
        },
    }
}

/// Moves of components are seen in the stored line; only what is more than that is told.
fn notice(notice: &Notice) -> Option<String> {
    match notice {
        Notice::Moved { from, to, why, .. } => {
            let why = why
                .as_ref()
                .map_or(String::new(), |(reason, message)| format!(" ({}: {message})", reason.as_str()));
            Some(format!("{from} → {to}{why}"))
        }
        Notice::Expired => Some("expired".to_owned()),
        Notice::Slice { component, notice } => Some(format!("slice {component}: {notice:?}")),
        Notice::Component { component, notice } => match notice {
            component::Notice::Moved { .. } => None,
            component::Notice::JobEnded { op, failure: None } => {
                Some(format!("{} of {component} succeeded", op.as_str()))
            }
            component::Notice::JobEnded { op, failure: Some(reason) } => {
                Some(format!("{} of {component} failed: {}", op.as_str(), reason.as_str()))
            }
            component::Notice::Retried { attempts, .. } => {
                Some(format!("{component} is tried again after {attempts}"))
            }
            component::Notice::Forced { .. } => Some(format!("{component} is given up")),
        },
    }
}
