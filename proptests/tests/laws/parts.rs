//! The laws of what the machines stand on: topology, names, Job verdicts and the Helm table.

use crate::{
    cases,
    strategies::{self, NAMES, name, uid},
};
use petri_machines::{
    job::{self, Op, Verdict},
    kernel::Seen,
    names::{ComponentName, EnvironmentName, JobName, NamespaceName, ReleaseName},
    release::{self, Action, Operation, Revision},
    topology::{self, GraphError},
};
use proptest::{collection::vec, prelude::*, sample::select};
use std::collections::BTreeMap;

type Graph = Vec<(ComponentName, Vec<ComponentName>)>;

/// Any graph: unknown and double names and cycles are common.
fn graph() -> impl Strategy<Value = Graph> {
    let one = || select(vec!["a", "b", "c", "d", "x"]).prop_map(name);
    vec((one(), vec(one(), 0..3)), 0..6)
}

fn check_levels(graph: &Graph, levels: &[Vec<ComponentName>]) -> Result<(), TestCaseError> {
    let place = |name: &ComponentName| levels.iter().position(|level| level.contains(name));
    prop_assert_eq!(levels.iter().map(Vec::len).sum::<usize>(), graph.len());
    for (name, needs) in graph {
        let at = place(name).ok_or_else(|| TestCaseError::fail(format!("{name} has no level")))?;
        // Exactly one above the highest dependency: neither too early nor later than it must.
        let lowest = needs.iter().filter_map(place).map(|level| level + 1).max().unwrap_or(0);
        prop_assert_eq!(at, lowest, "{} stands in the wrong level", name);
    }
    let order = |name: &ComponentName| graph.iter().position(|(one, _)| one == name);
    for level in levels {
        prop_assert!(level.is_sorted_by_key(order), "input order is lost: {level:?}");
    }
    Ok(())
}

fn check_refusal(graph: &Graph, error: &GraphError) -> Result<(), TestCaseError> {
    let needs: BTreeMap<_, _> = graph.iter().cloned().collect();
    match error {
        GraphError::Duplicate(name) => {
            prop_assert!(graph.iter().filter(|(one, _)| one == name).count() > 1);
        }
        GraphError::Unknown { component, dependency } => {
            prop_assert!(needs[component].contains(dependency) && !needs.contains_key(dependency));
        }
        GraphError::Cycle(cycle) => {
            prop_assert!(!cycle.is_empty());
            for (from, to) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                prop_assert!(needs[from].contains(to), "{from} does not depend on {to}");
            }
        }
    }
    Ok(())
}

fn history() -> impl Strategy<Value = Vec<Revision>> {
    let word = select(vec![
        "deployed",
        "superseded",
        "failed",
        "pending-install",
        "pending-upgrade",
        "pending-rollback",
        "uninstalling",
        "uninstalled",
        "reticulating",
    ]);
    vec(word, 0..6).prop_map(|words| {
        (1..).zip(words).map(|(revision, status)| Revision { revision, status: status.to_owned() }).collect()
    })
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn levels_follow_dependencies_and_a_refusal_names_what_is_really_there(graph in graph()) {
        match topology::levels(&graph) {
            Ok(levels) => check_levels(&graph, &levels)?,
            Err(error) => check_refusal(&graph, &error)?,
        }
    }

    #[test]
    fn a_graph_drawn_without_cycles_always_has_levels(masks in vec(0..8usize, NAMES.len())) {
        let needs = |i: usize| (0..i).filter(|j| masks[i] & (1 << j) != 0).map(|j| name(NAMES[j])).collect();
        let graph: Graph = (0..NAMES.len()).map(|i| (name(NAMES[i]), needs(i))).collect();
        prop_assert!(topology::levels(&graph).is_ok());
    }

    #[test]
    fn an_outcome_counts_only_for_the_serial_the_operation_and_the_uid_of_the_attempt(
        attempt in strategies::attempt(),
        op in select(vec![Op::Deploy, Op::Undeploy]),
        jobs in strategies::jobs(),
    ) {
        let seen = Seen::Known(jobs.clone());
        match job::verdict(&attempt, op, &seen) {
            Verdict::Succeeded(job) | Verdict::Failed(job, _) | Verdict::Active(job) => {
                prop_assert_eq!((job.serial, job.op), (attempt.serial, op));
                prop_assert!(attempt.job.as_ref().is_none_or(|uid| *uid == job.uid));
            }
            Verdict::Busy(other) => prop_assert!(job::is_live(other)),
            Verdict::Lost => prop_assert!(attempt.job.is_some()),
            Verdict::Absent => prop_assert!(
                attempt.job.is_none() && jobs.iter().all(|job| !job::is_live(job)),
                "absent beside a live Job"
            ),
            Verdict::Unknown(_) => prop_assert!(false, "known Jobs are not unknown"),
        }
        for old in job::replaced(&attempt, &seen) {
            prop_assert!(!job::is_live(old) && old.serial < attempt.serial && !old.deleting);
        }
    }

    #[test]
    fn a_job_name_fits_and_tells_environment_component_operation_and_serial_apart(
        owner in "[a-z0-9.-]{1,253}",
        component in "[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
        serial in any::<u64>(),
    ) {
        let (env, component) = (EnvironmentName::new(owner).unwrap(), name(&component));
        let job = |uid_: &str, op, serial| JobName::of(&uid(uid_), &env, &component, op, serial);
        let one = job("u", Op::Deploy, serial);
        prop_assert!(JobName::new(one.as_str()).is_ok(), "{}", one);
        prop_assert_eq!(&one, &job("u", Op::Deploy, serial));
        for other in [
            job("v", Op::Deploy, serial),
            job("u", Op::Undeploy, serial),
            job("u", Op::Deploy, serial.wrapping_add(1)),
        ] {
            prop_assert_ne!(&one, &other);
        }
    }

    #[test]
    fn a_namespace_has_twelve_valid_names_and_two_environments_share_none(
        (left, right) in ("[a-f0-9-]{1,36}", "[a-f0-9-]{1,36}"),
    ) {
        let of = |text: &str| NamespaceName::candidates(&uid(text));
        prop_assert_eq!(of(&left).len(), 12);
        prop_assert!(of(&left).iter().all(|name| NamespaceName::new(name.as_str()).is_ok()));
        let longest = |text: &str| of(text).last().cloned();
        prop_assert_eq!(left == right, longest(&left) == longest(&right));
    }

    #[test]
    fn a_release_name_is_refused_or_fits(owner in "[a-z]([a-z0-9-]{0,60}[a-z0-9])?", component in "[a-z]{1,63}") {
        let env = EnvironmentName::new(owner.clone()).unwrap();
        match ReleaseName::of(&env, &name(&component)) {
            Ok(release) => prop_assert_eq!(release.as_str(), format!("{owner}-{component}")),
            Err(_) => prop_assert!(owner.len() + 1 + component.len() > 53),
        }
    }

    #[test]
    fn no_helm_history_leads_to_a_forbidden_call(history in history()) {
        let verdict = release::read(&history);
        let last = history.last().map(|revision| revision.status.as_str());
        let deploy = release::plan(Operation::Deploy, &verdict);
        let undeploy = release::plan(Operation::Undeploy, &verdict);
        // Helm refuses install over any record and upgrade over a pending one.
        let may_upgrade = |at: usize| matches!(last, Some("deployed" | "superseded" | "failed"))
            || deploy[..at].last().is_some_and(Action::may_fail);
        for (at, action) in deploy.iter().enumerate() {
            match action {
                Action::Install => prop_assert!(last.is_none() || deploy[..at] == [Action::Uninstall]),
                Action::Upgrade => prop_assert!(may_upgrade(at)),
                Action::Rollback { to } => {
                    let was = history.iter().find(|revision| revision.revision == *to).map(|one| one.status.as_str());
                    prop_assert!(matches!(was, Some("deployed" | "superseded")), "back to {:?}", was);
                }
                Action::Uninstall => prop_assert!(last.is_some()),
                Action::Refuse(word) => prop_assert_eq!(Some(word.as_str()), last),
            }
        }
        prop_assert!(!deploy.is_empty(), "a deploy that does nothing");
        prop_assert!(undeploy.iter().all(|action| *action == Action::Uninstall));
        prop_assert_eq!(undeploy.is_empty(), history.is_empty());
        let mut shuffled = history.clone();
        shuffled.reverse();
        prop_assert_eq!(release::read(&shuffled), verdict);
    }
}
