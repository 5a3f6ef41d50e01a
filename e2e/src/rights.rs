//! Proves on a cluster with the chart installed that the operator has its rights and no others.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::Namespace,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ObjectMeta, PostParams, Preconditions},
};
use serde_json::Value;
use thiserror::Error;

mod bindings;
mod table;

/// A new policy is enforced some seconds after it was created.
const POLICY_WAIT: Duration = Duration::from_secs(60);

/// Is why the rights are not as they must be.
#[derive(Debug, Error)]
pub enum RightsError {
    /// A request that the proof itself needs failed.
    #[error(transparent)]
    Kube(#[from] Box<kube::Error>),
    /// The admission policy lets a foreign RoleBinding pass.
    #[error("the admission policy is not enforced after {} s", POLICY_WAIT.as_secs())]
    NoPolicy,
    /// Rights are missing or too wide; one line each.
    #[error("{}", .0.join("\n"))]
    Wrong(Vec<String>),
}

impl From<kube::Error> for RightsError {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

/// One proof: who asks, and where.
struct Proof {
    admin: Client,
    operator: Client,
    /// Namespace of the operator.
    management: String,
    /// Labelled as Petri's, made by the operator itself.
    workload: String,
    /// Its label says that it is not managed.
    foreign: String,
    held: usize,
    wrong: Vec<String>,
}

/// Runs every check against the cluster of `admin` and returns how many held; ends with its namespaces deleted.
///
/// Errors: a check does not hold, or the cluster does not answer.
pub async fn prove(admin: &Config, management: &str) -> Result<usize, RightsError> {
    let mut as_operator = admin.clone();
    as_operator.auth_info.impersonate = Some(user(management));
    as_operator.auth_info.impersonate_groups = Some(groups(management));
    let run = std::process::id();
    let mut proof = Proof {
        admin: Client::try_from(admin.clone())?,
        operator: Client::try_from(as_operator)?,
        management: management.to_owned(),
        workload: format!("petri-env-rights-{run}"),
        foreign: format!("rights-foreign-{run}"),
        held: 0,
        wrong: Vec::new(),
    };
    let done = proof.run().await;
    let namespaces: Api<Namespace> = Api::all(proof.admin.clone());
    for name in [&proof.workload, &proof.foreign] {
        // A failed proof may not have made it, a good one has deleted it.
        let _ = namespaces.delete(name, &DeleteParams::default()).await;
    }
    done?;
    if proof.wrong.is_empty() { Ok(proof.held) } else { Err(RightsError::Wrong(proof.wrong)) }
}

/// Asks for every right of petri-apiserver, installed by the chart, and returns how many answers were right.
///
/// Errors: it has a right too many or too few, or the cluster does not answer.
pub async fn prove_apiserver(admin: &Client, management: &str) -> Result<usize, RightsError> {
    let places = table::Places { workload: "", management, shared: "petri-shared" };
    let user = format!("system:serviceaccount:{management}:petri-apiserver");
    let outcomes = ask(admin, &user, management, table::apiserver(&places)).await?;
    let wrong: Vec<_> =
        outcomes.iter().filter_map(|(name, held)| Some(format!("{name}: {}", held.err()?))).collect();
    if wrong.is_empty() { Ok(outcomes.len()) } else { Err(RightsError::Wrong(wrong)) }
}

/// Asks the authorizer, and says of each question whether the answer is the expected one.
async fn ask(
    admin: &Client,
    user: &str,
    management: &str,
    questions: Vec<table::Question>,
) -> Result<Vec<(String, Result<(), &'static str>)>, RightsError> {
    let asked = stream::iter(questions.into_iter().map(|question| {
        let admin = admin.clone();
        async move {
            let granted = allowed(admin, user, management, &question.attributes).await?;
            let outcome = match (question.expected, granted) {
                (true, false) => Err("is missing"),
                (false, true) => Err("is too much"),
                _ => Ok(()),
            };
            let shown = serde_json::to_value(&question.attributes).unwrap_or(Value::Null);
            Ok::<_, kube::Error>((shown.to_string(), outcome))
        }
    }));
    Ok(asked.buffer_unordered(16).try_collect().await?)
}

fn user(management: &str) -> String {
    format!("system:serviceaccount:{management}:petri-operator")
}

fn groups(management: &str) -> Vec<String> {
    ["system:serviceaccounts", &format!("system:serviceaccounts:{management}"), "system:authenticated"]
        .map(str::to_owned)
        .to_vec()
}

fn namespace(name: &str, managed: bool) -> Namespace {
    let labels = [("petri.run/managed".to_owned(), managed.to_string())].into();
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..Default::default() };
    Namespace { metadata, ..Default::default() }
}

impl Proof {
    async fn run(&mut self) -> Result<(), RightsError> {
        let post = PostParams::default();
        let by_admin: Api<Namespace> = Api::all(self.admin.clone());
        by_admin.create(&post, &namespace(&self.foreign, false)).await?;
        let by_operator: Api<Namespace> = Api::all(self.operator.clone());
        let made = by_operator.create(&post, &namespace(&self.workload, true)).await?;
        self.policy_is_enforced().await?;
        self.bindings().await?;
        self.table().await?;
        // The operator ends a workload namespace with the rights it bound to itself there.
        let uid = made.metadata.uid;
        let params = DeleteParams::default().preconditions(Preconditions { uid, resource_version: None });
        let deleted = by_operator.delete(&self.workload, &params).await;
        self.check("the operator deletes its namespace", deleted.map(drop).map_err(|e| e.to_string()));
        let foreign = by_operator.delete(&self.foreign, &DeleteParams::default()).await;
        self.check("the operator cannot delete a foreign namespace", refused(foreign.map(drop), "forbidden"));
        Ok(())
    }

    fn check(&mut self, name: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.held += 1,
            Err(error) => self.wrong.push(format!("{name}: {error}")),
        }
    }

    async fn bind(&self, client: &Client, place: &str, object: &Value) -> kube::Result<RoleBinding> {
        let binding = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        Api::namespaced(client.clone(), place).create(&PostParams::default(), &binding).await
    }

    /// Waits until the policy is at work: right after an install the API server does not know it yet.
    async fn policy_is_enforced(&self) -> Result<(), RightsError> {
        let since = Instant::now();
        let intruder = bindings::binding("petri-deployer", "admin", &[("petri-deployer", &self.foreign)]);
        while since.elapsed() < POLICY_WAIT {
            if self.bind(&self.operator, &self.foreign, &intruder).await.is_err() {
                return Ok(());
            }
            let all: Api<RoleBinding> = Api::namespaced(self.admin.clone(), &self.foreign);
            all.delete("petri-deployer", &DeleteParams::default()).await?;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Err(RightsError::NoPolicy)
    }

    /// Refused ones first: the fixed names are free then, so it is the policy that refuses and nothing else.
    async fn bindings(&mut self) -> Result<(), RightsError> {
        // A namesake of the ClusterRole without rights, so that RBAC lets anybody bind it.
        let metadata = ObjectMeta { name: Some(bindings::OPERATOR_ROLE.to_owned()), ..Default::default() };
        let roles: Api<Role> = Api::namespaced(self.admin.clone(), &self.workload);
        roles.create(&PostParams::default(), &Role { metadata, rules: None }).await?;
        for attempt in bindings::refused(&self.management, &self.workload, &self.foreign) {
            let outcome = self.bind(&self.operator, &attempt.place, &attempt.object).await;
            self.check(attempt.name, refused(outcome.map(drop), attempt.why));
        }
        for attempt in bindings::permitted(&self.management, &self.workload) {
            let outcome = self.bind(&self.operator, &attempt.place, &attempt.object).await;
            self.check(attempt.name, outcome.map(drop).map_err(|error| error.to_string()));
        }
        let other = bindings::binding("anything", "view", &[("default", &self.foreign)]);
        let outcome = self.bind(&self.admin, &self.foreign, &other).await;
        self.check("others bind what they like", outcome.map(drop).map_err(|error| error.to_string()));
        Ok(())
    }

    /// Asks the authorizer for every verb of every row in every place.
    async fn table(&mut self) -> Result<(), RightsError> {
        let places =
            table::Places { workload: &self.workload, management: &self.management, shared: "petri-shared" };
        let questions = table::questions(&places);
        let outcomes = ask(&self.admin, &user(&self.management), &self.management, questions).await?;
        for (name, outcome) in outcomes {
            self.check(&name, outcome.map_err(str::to_owned));
        }
        Ok(())
    }
}

async fn allowed(
    admin: Client,
    user: &str,
    management: &str,
    attributes: &ResourceAttributes,
) -> kube::Result<bool> {
    let spec = SubjectAccessReviewSpec {
        user: Some(user.to_owned()),
        groups: Some(groups(management)),
        resource_attributes: Some(attributes.clone()),
        ..Default::default()
    };
    let review = SubjectAccessReview { spec, ..Default::default() };
    let answer = Api::<SubjectAccessReview>::all(admin).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Turns "it was refused with 403 for this reason" into success.
fn refused(outcome: kube::Result<()>, why: &str) -> Result<(), String> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains(why) => Ok(()),
        Err(kube::Error::Api(status)) => Err(format!("refused, but not for {why:?}: {}", status.message)),
        Err(error) => Err(error.to_string()),
        Ok(()) => Err("was permitted".to_owned()),
    }
}
