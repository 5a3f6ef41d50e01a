//! What to do with a Helm release, given its history: one verdict, one table.
//!
//! [`read`] classifies the history, [`plan`] answers with the actions, in order. Helm keeps no lock, so a
//! process that was killed leaves a `pending-*` record which Helm itself then refuses for ever ("another
//! operation is in progress"). Here such a record is always the remains of a dead predecessor: the operator
//! runs at most one Job per release and waits until its pod is gone.

use serde::{Deserialize, Serialize};

/// Carries what this table needs of one entry of a release's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Helm's revision number; the highest is the current one.
    pub revision: u32,
    /// Helm's status word, as `helm history` prints it.
    pub status: String,
}

/// Says in which state the last operation left a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is no record.
    Absent,
    /// The last revision is in force.
    Deployed,
    /// The last revision was replaced, and what replaced it is gone.
    Superseded,
    /// The last operation failed and said so.
    Failed,
    /// An install was cut off.
    PendingInstall,
    /// An upgrade was cut off.
    PendingUpgrade {
        /// The newest earlier revision that was in force once.
        rollback_to: Option<u32>,
    },
    /// A rollback was cut off.
    PendingRollback {
        /// The newest earlier revision that was in force once.
        rollback_to: Option<u32>,
    },
    /// An uninstall was cut off or failed.
    Uninstalling,
    /// The release was uninstalled with its history kept (not by Petri).
    Uninstalled,
    /// Helm's status is a word this table does not know.
    Unknown(String),
}

/// Names what is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Bring the release to the given chart and values.
    Deploy,
    /// Remove the release.
    Undeploy,
}

/// Names one call of Helm, or the refusal to make any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Makes the first revision.
    Install,
    /// Makes the next revision.
    Upgrade,
    /// Goes back to a revision by number, without hooks; when it fails the plan goes on.
    Rollback {
        /// The revision to go back to.
        to: u32,
    },
    /// Removes the objects and the records.
    Uninstall,
    /// Touches nothing; the word is Helm's unknown status.
    Refuse(String),
}

impl Action {
    /// Says whether the plan goes on when this action fails.
    pub const fn may_fail(&self) -> bool {
        matches!(self, Self::Rollback { .. })
    }
}

/// Classifies a release's history, given in any order.
pub fn read(history: &[Revision]) -> Verdict {
    let Some(last) = history.iter().max_by_key(|entry| entry.revision) else {
        return Verdict::Absent;
    };
    let rollback_to = || {
        history
            .iter()
            .filter(|entry| entry.revision < last.revision)
            .filter(|entry| matches!(entry.status.as_str(), "deployed" | "superseded"))
            .map(|entry| entry.revision)
            .max()
    };
    match last.status.as_str() {
        "deployed" => Verdict::Deployed,
        "superseded" => Verdict::Superseded,
        "failed" => Verdict::Failed,
        "pending-install" => Verdict::PendingInstall,
        "pending-upgrade" => Verdict::PendingUpgrade { rollback_to: rollback_to() },
        "pending-rollback" => Verdict::PendingRollback { rollback_to: rollback_to() },
        "uninstalling" => Verdict::Uninstalling,
        "uninstalled" => Verdict::Uninstalled,
        other => Verdict::Unknown(other.to_owned()),
    }
}

/// Says whether an [`Action::Uninstall`] of the plan runs the chart's delete hooks.
///
/// They undo what a running workload did. A deploy that clears away a revision which was never in force
/// leaves them out: they would wait for something that never came up.
pub const fn delete_hooks(operation: Operation, verdict: &Verdict) -> bool {
    match (operation, verdict) {
        (Operation::Undeploy, _) => true,
        (Operation::Deploy, verdict) => !matches!(
            verdict,
            Verdict::PendingInstall | Verdict::PendingUpgrade { .. } | Verdict::PendingRollback { .. }
        ),
    }
}

/// Gives the actions that take a release from `verdict` to what `operation` wants, in order.
///
/// Nothing to do is an empty plan. The plan stops at the first failure, unless [`Action::may_fail`].
pub fn plan(operation: Operation, verdict: &Verdict) -> Vec<Action> {
    match operation {
        Operation::Deploy => deploy(verdict),
        Operation::Undeploy => undeploy(verdict),
    }
}

fn deploy(verdict: &Verdict) -> Vec<Action> {
    match verdict {
        Verdict::Absent => vec![Action::Install],
        Verdict::Deployed | Verdict::Superseded | Verdict::Failed => vec![Action::Upgrade],
        Verdict::PendingUpgrade { rollback_to: Some(to) }
        | Verdict::PendingRollback { rollback_to: Some(to) } => {
            vec![Action::Rollback { to: *to }, Action::Upgrade]
        }
        // Nothing was ever in force (or it is on its way out): only a clean start leads on.
        Verdict::PendingInstall
        | Verdict::PendingUpgrade { rollback_to: None }
        | Verdict::PendingRollback { rollback_to: None }
        | Verdict::Uninstalling
        | Verdict::Uninstalled => vec![Action::Uninstall, Action::Install],
        Verdict::Unknown(status) => vec![Action::Refuse(status.clone())],
    }
}

/// Helm's uninstall takes a record in any status, an unknown one too; and a deletion must always find an end.
fn undeploy(verdict: &Verdict) -> Vec<Action> {
    match verdict {
        Verdict::Absent => Vec::new(),
        Verdict::Deployed
        | Verdict::Superseded
        | Verdict::Failed
        | Verdict::PendingInstall
        | Verdict::PendingUpgrade { .. }
        | Verdict::PendingRollback { .. }
        | Verdict::Uninstalling
        | Verdict::Uninstalled
        | Verdict::Unknown(_) => vec![Action::Uninstall],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(statuses: &[&str]) -> Vec<Revision> {
        (1..)
            .zip(statuses)
            .map(|(revision, status)| Revision { revision, status: (*status).to_owned() })
            .collect()
    }

    #[track_caller]
    fn check(statuses: &[&str], verdict: Verdict, deploy: &[Action], undeploy: &[Action]) {
        let mut entries = history(statuses);
        for _ in 0..2 {
            assert_eq!(read(&entries), verdict, "{statuses:?}");
            entries.reverse();
        }
        assert_eq!(plan(Operation::Deploy, &verdict), deploy, "deploy after {statuses:?}");
        assert_eq!(plan(Operation::Undeploy, &verdict), undeploy, "undeploy after {statuses:?}");
    }

    #[test]
    fn no_history_means_install_and_nothing_to_remove() {
        check(&[], Verdict::Absent, &[Action::Install], &[]);
    }

    #[test]
    fn a_finished_operation_is_followed_by_an_upgrade() {
        check(&["deployed"], Verdict::Deployed, &[Action::Upgrade], &[Action::Uninstall]);
        check(&["superseded", "deployed"], Verdict::Deployed, &[Action::Upgrade], &[Action::Uninstall]);
        check(&["superseded"], Verdict::Superseded, &[Action::Upgrade], &[Action::Uninstall]);
        check(&["failed"], Verdict::Failed, &[Action::Upgrade], &[Action::Uninstall]);
    }

    #[test]
    fn an_install_that_was_cut_off_is_removed_and_made_anew() {
        let again = [Action::Uninstall, Action::Install];
        check(&["pending-install"], Verdict::PendingInstall, &again, &[Action::Uninstall]);
    }

    #[test]
    fn an_upgrade_that_was_cut_off_goes_back_to_the_newest_revision_that_was_in_force() {
        let to = |to| [Action::Rollback { to }, Action::Upgrade];
        let verdict = |to| Verdict::PendingUpgrade { rollback_to: Some(to) };
        check(&["deployed", "pending-upgrade"], verdict(1), &to(1), &[Action::Uninstall]);
        check(
            &["superseded", "deployed", "failed", "pending-upgrade"],
            verdict(2),
            &to(2),
            &[Action::Uninstall],
        );
        check(&["superseded", "failed", "pending-upgrade"], verdict(1), &to(1), &[Action::Uninstall]);
    }

    #[test]
    fn a_rollback_that_was_cut_off_goes_back_by_number() {
        check(
            &["superseded", "superseded", "pending-upgrade", "pending-rollback"],
            Verdict::PendingRollback { rollback_to: Some(2) },
            &[Action::Rollback { to: 2 }, Action::Upgrade],
            &[Action::Uninstall],
        );
    }

    #[test]
    fn with_nothing_to_go_back_to_the_release_starts_again() {
        let again = [Action::Uninstall, Action::Install];
        let upgrade = Verdict::PendingUpgrade { rollback_to: None };
        let rollback = Verdict::PendingRollback { rollback_to: None };
        check(&["failed", "pending-upgrade"], upgrade, &again, &[Action::Uninstall]);
        check(&["failed", "pending-rollback"], rollback, &again, &[Action::Uninstall]);
    }

    #[test]
    fn an_uninstall_that_was_cut_off_is_finished_first() {
        let again = [Action::Uninstall, Action::Install];
        check(&["deployed", "uninstalling"], Verdict::Uninstalling, &again, &[Action::Uninstall]);
        check(&["uninstalled"], Verdict::Uninstalled, &again, &[Action::Uninstall]);
    }

    #[test]
    fn an_unknown_status_is_named_and_never_deployed_over_but_can_be_removed() {
        let verdict = Verdict::Unknown("reticulating".to_owned());
        let refuse = [Action::Refuse("reticulating".to_owned())];
        check(&["deployed", "reticulating"], verdict, &refuse, &[Action::Uninstall]);
    }

    #[test]
    fn delete_hooks_are_left_out_only_where_a_deploy_clears_away_what_was_never_in_force() {
        let verdict = read(&history(&["pending-install"]));
        assert!(!delete_hooks(Operation::Deploy, &verdict));
        assert!(delete_hooks(Operation::Undeploy, &verdict));
        assert!(!delete_hooks(Operation::Deploy, &read(&history(&["failed", "pending-upgrade"]))));
        assert!(delete_hooks(Operation::Deploy, &read(&history(&["uninstalling"]))));
    }

    #[test]
    fn only_a_rollback_may_fail() {
        assert!(Action::Rollback { to: 1 }.may_fail());
        for action in [Action::Install, Action::Upgrade, Action::Uninstall, Action::Refuse(String::new())] {
            assert!(!action.may_fail(), "{action:?}");
        }
    }
}
