//! Rights that are missing: the answer that says so is logged, and kept for the pass that asked.
use crate::error::CallError;
use kube::core::Status;
use std::cell::RefCell;
use tracing::warn;

tokio::task_local! {
    static NOTED: RefCell<Option<String>>;
}

/// Makes these calls, and returns besides what the server said to the first that lacked a right. Large ones are boxed
/// by the caller: they are moved twice.
pub async fn noting_missing_rights<T>(calls: impl Future<Output = T>) -> (T, Option<String>) {
    let noted = async {
        let outcome = calls.await;
        (outcome, NOTED.with(RefCell::take))
    };
    NOTED.scope(RefCell::default(), noted).await
}

/// Takes note of an error, if it is a right that is missing.
pub(super) fn note(error: &CallError) {
    if !error.status().is_some_and(lacks_right) {
        return;
    }
    warn!(%error, "a right is missing");
    // Who asks outside of a pass has the log alone.
    let _ = NOTED.try_with(|noted| {
        noted.borrow_mut().get_or_insert_with(|| error.to_string());
    });
}

/// Says of a RoleBinding that who makes it may not.
const ESCALATES: &str = "attempting to grant RBAC permissions not currently held";

/// Tells whether an answer says that a right is missing. A quota, an admission policy and a namespace that goes are 403
/// as well; the words are RBAC's.
pub(super) fn lacks_right(status: &Status) -> bool {
    let said = &status.message;
    let lacks = (said.contains(" cannot ") && said.contains(" resource ")) || said.contains(ESCALATES);
    status.code == 403 && lacks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::timed;
    use std::time::Duration;

    const RIGHT: &str = "secrets \"x\" is forbidden: User \"system:serviceaccount:petri-system:petri-operator\" cannot get resource \"secrets\" in API group \"\" in the namespace \"petri-env-1\"";

    async fn ask(message: &str) {
        let status = Status::failure(message, "Forbidden").with_code(403).boxed();
        let answer = std::future::ready(Err::<(), _>(kube::Error::Api(status)));
        timed(Duration::from_secs(1), answer).await.unwrap_err();
    }

    #[tokio::test]
    async fn the_first_missing_right_of_a_pass_is_kept_and_no_other_403() {
        let ((), noted) = noting_missing_rights(async {
            ask("pods \"x\" is forbidden: exceeded quota: petri").await;
            ask(RIGHT).await;
            ask("jobs is forbidden: User \"x\" cannot list resource \"jobs\"").await;
        })
        .await;
        assert!(noted.unwrap().contains("cannot get resource \"secrets\""));
        ask(RIGHT).await;
        assert_eq!(noting_missing_rights(async {}).await.1, None);
    }
}
