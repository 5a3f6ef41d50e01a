//! One right of the chart after the other taken away: what is missing is named in readiness, in the log and in the
//! condition, and the environment goes on by itself when it is given back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use http::Request;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use petri_crds::EnvironmentTemplate;
use petri_crds::meta::SHARED_NAMESPACE;
use serde_json::json;

use super::audit::Audit;
use super::bad_input::{cleaned, environment};
use super::faults::{EVERYWHERE, OWN, Right, SHARED, WORKLOAD, granted, needed, show, used};
use super::invariants::OPERATOR;
use crate::petri::{Error, MANAGEMENT, Petri, is_ready, story};

const TEMPLATE: &str = "rights";
/// How long a life or its end may take until it counts as one that does not need the right.
const LIFE_MAX: Duration = Duration::from_secs(60);
/// How long it may take to go on after the right came back: the longest pause between two attempts is a minute.
const BACK_MAX: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);
/// How long the operator may take to say whether it is ready.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a refusal may take until everybody says it: its second attempt comes a second later.
const SAY_MAX: Duration = Duration::from_secs(15);

/// Of these nothing can be said in a condition: the condition itself cannot be written, or the environment does not
/// depend on it.
const NOT_IN_A_CONDITION: [(&str, &str); 6] = [
    ("update", "ephemeralenvironments/status"),
    ("create", "events"),
    ("get", "leases"),
    ("create", "leases"),
    ("update", "leases"),
    ("list", "secrets"),
];

/// Takes every right away that a life asks for, lives one, and gives it back.
pub async fn acts(petri: &Petri<'_>) -> Result<String, Error> {
    let template = json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": TEMPLATE, "namespace": MANAGEMENT},
        "spec": {
            "namespace": {
                "resourceQuota": {"hard": {"count/configmaps": "50"}},
                "limitRange": {"limits": [{"type": "Container", "default": {"memory": "256Mi"}}]},
                "networkPolicy": "isolate",
            },
            "ingress": {"domain": "preview.example.com", "port": 80},
            "components": [{"name": "a", "helm": {"path": "/charts/tiny", "valuesObject": {"service": true}}}],
        },
    });
    let template: EnvironmentTemplate =
        serde_json::from_value(template).map_err(|error| Error::Wrong(error.to_string()))?;
    petri.apply_object(&petri.templates(), &template).await?;
    let granted = granted(petri).await?;
    let read = |right: &&Right| matches!(right.1.as_str(), "get" | "list" | "watch") && right.3 != "secrets";
    let asked = asked(petri, &granted).await?;
    let (mut named, mut idle, mut broken) = (0, Vec::new(), Vec::new());
    for right in asked.iter().filter(|right| !read(right)) {
        match without(petri, right).await? {
            Seen::Named => named += 1,
            Seen::NotAsked => idle.push(show(right)),
            Seen::Untold(what) => broken.push(format!("{}: {what}", show(right))),
        }
    }
    cleaned(petri).await?;
    if !broken.is_empty() {
        return Err(Error::Wrong(broken.join("\n")));
    }
    Ok(format!("{named} rights named when they are missing; not missed by a life: {}", idle.join(", ")))
}

/// Takes the rights to watch away, one kind after the other, from an operator that begins.
pub async fn watches(petri: &Petri<'_>) -> Result<String, Error> {
    let mut broken = Vec::new();
    let watched = watched(petri).await?;
    for right in &watched {
        if let Some(what) = blind(petri, right).await? {
            broken.push(format!("{}: {what}", show(right)));
        }
    }
    match (broken.is_empty(), watched.is_empty()) {
        (true, false) => Ok(format!("{} rights to watch named when they are missing", watched.len())),
        (true, true) => Err(Error::Wrong("no right to watch was used".to_owned())),
        (false, _) => Err(Error::Wrong(broken.join("\n"))),
    }
}

/// Begins an operator with every right, and returns those to watch that it used.
async fn watched(petri: &Petri<'_>) -> Result<BTreeSet<Right>, Error> {
    let granted = granted(petri).await?;
    let mut audit = Audit::from_now(petri.lab.audit_log())?;
    replace(petri).await?;
    until_readiness(petri, |_| true).await?;
    let requests = audit.news()?;
    // A watch that goes on is in the log with its first stage only.
    let rights = requests.iter().filter(|one| one.is_by(OPERATOR) && one.verb == "watch");
    Ok(rights.filter_map(|one| needed(one, &granted)).collect())
}

/// Lives one environment with every right, and returns those that were asked for.
async fn asked(petri: &Petri<'_>, granted: &BTreeSet<Right>) -> Result<BTreeSet<Right>, Error> {
    let mut audit = Audit::from_now(petri.lab.audit_log())?;
    petri.apply_object(&petri.environments(), &environment("with-all", TEMPLATE, json!({}))).await?;
    petri.until_ready("with-all", LIFE_MAX).await?;
    petri.delete("with-all").await?;
    petri.until_gone("with-all", LIFE_MAX).await?;
    let requests = audit.news()?;
    let own = requests.iter().filter(|request| request.is_by(OPERATOR));
    Ok(own.filter_map(|request| used(request, granted)).collect())
}

enum Seen {
    Named,
    NotAsked,
    Untold(String),
}

/// Lives an environment without this right.
async fn without(petri: &Petri<'_>, right: &Right) -> Result<Seen, Error> {
    let name = format!("without-{}-{}", right.1, right.3.replace('/', "-"));
    let taken = Taken::take(petri, right).await?;
    let lived = lived(petri, right, &name).await;
    taken.give_back(petri).await?;
    let seen = lived?;
    if petri
        .environments()
        .get_opt(&name)
        .await?
        .is_some_and(|found| found.metadata.deletion_timestamp.is_none())
    {
        petri.until_ready(&name, BACK_MAX).await?;
        petri.delete(&name).await?;
    }
    petri.until_gone(&name, BACK_MAX).await?;
    Ok(seen)
}

async fn lived(petri: &Petri<'_>, right: &Right, name: &str) -> Result<Seen, Error> {
    petri.apply_object(&petri.environments(), &environment(name, TEMPLATE, json!({}))).await?;
    let line = format!("right missing: {} {}", right.1, right.3);
    let (started, mut deleted) = (Instant::now(), false);
    while started.elapsed() < LIFE_MAX {
        if readiness(petri).await.is_ok_and(|text| text.contains(&line)) {
            return told(petri, right, name).await;
        }
        match petri.environments().get_opt(name).await? {
            None if deleted => return Ok(Seen::NotAsked),
            Some(found) if !deleted && is_ready(&found) => {
                petri.delete(name).await?;
                deleted = true;
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
    let found = petri.environments().get_opt(name).await?;
    Ok(Seen::Untold(format!(
        "neither named nor lived: {}",
        found.as_ref().map_or_else(String::new, crate::petri::summary)
    )))
}

/// Waits until the log and the condition say it as well.
async fn told(petri: &Petri<'_>, right: &Right, name: &str) -> Result<Seen, Error> {
    let (verb, resource) = (&right.1, &right.3);
    let words = [format!("cannot {verb} resource"), format!("\"{resource}\"")];
    let bare = NOT_IN_A_CONDITION.contains(&(verb.as_str(), resource.as_str()));
    let (started, mut last) = (Instant::now(), String::new());
    let mut logged = false;
    while started.elapsed() < SAY_MAX {
        // The log writes JSON: its quotes are escaped.
        logged = logged
            || log(petri)
                .await?
                .lines()
                .any(|line| line.contains(&words[0]) && line.contains(resource.as_str()));
        let found = petri.environments().get_opt(name).await?;
        let (reason, message) = found.as_ref().map(story).unwrap_or_default();
        let in_condition = reason == "Refused" && words.iter().all(|word| message.contains(word));
        if logged && (in_condition || bare) {
            return Ok(Seen::Named);
        }
        last = format!("log: {logged}, condition: {reason}: {message}");
        tokio::time::sleep(LOOK).await;
    }
    Ok(Seen::Untold(last))
}

/// Begins an operator that may not list and watch a kind; returns what it does not say.
async fn blind(petri: &Petri<'_>, right: &Right) -> Result<Option<String>, Error> {
    let taken = Taken::take(petri, right).await?;
    let seen = blindly(petri, right).await;
    taken.give_back(petri).await?;
    let seen = seen?;
    let back = until_readiness(petri, |text| !text.contains("right missing")).await;
    Ok(seen.or(back.err().map(|error| error.to_string())))
}

/// Waits until the operator is ready and says what is asked for.
async fn until_readiness(petri: &Petri<'_>, says: impl Fn(&str) -> bool) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        let found = readiness(petri).await;
        if found.as_ref().is_ok_and(|text| says(text)) {
            return Ok(());
        }
        if started.elapsed() > LIFE_MAX {
            return Err(Error::Wrong(format!("readiness stays at {found:?}")));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Takes the operator's pods away; the Deployment makes another.
async fn replace(petri: &Petri<'_>) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let params = DeleteParams::default().grace_period(1);
    for pod in pods.list(&own()).await? {
        pods.delete(pod.metadata.name.as_deref().unwrap_or_default(), &params).await?;
    }
    Ok(())
}

async fn blindly(petri: &Petri<'_>, right: &Right) -> Result<Option<String>, Error> {
    replace(petri).await?;
    let (started, mut last) = (Instant::now(), String::new());
    while started.elapsed() < LIFE_MAX {
        // Who is not ready answers with status 503, which is an error to the client that holds the text all the same.
        last = match readiness(petri).await {
            Ok(text) => text,
            Err(error) => error.to_string(),
        };
        let logged = log(petri).await.unwrap_or_default();
        let logged = logged.lines().any(|line| line.contains("403") && line.contains(right.3.as_str()));
        if logged && last.contains(right.3.as_str()) {
            return Ok(None);
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(Some(format!("readiness says {last:?}")))
}

fn own() -> ListParams {
    ListParams::default().labels("app.kubernetes.io/name=petri-operator")
}

/// Returns what the operator answers at `/readyz`.
async fn readiness(petri: &Petri<'_>) -> Result<String, Error> {
    let pods: Api<Pod> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let pods = pods.list(&own()).await?;
    let alive = pods.items.iter().find(|pod| pod.metadata.deletion_timestamp.is_none());
    let name = alive.and_then(|pod| pod.metadata.name.clone()).unwrap_or_default();
    let client = petri.lab.cluster().client_without_retries()?;
    let uri = format!("/api/v1/namespaces/{MANAGEMENT}/pods/{name}:8081/proxy/readyz");
    let request = Request::get(uri).body(Vec::new()).map_err(|error| Error::Wrong(error.to_string()))?;
    // A pod that ends under the request leaves it without an answer, for minutes.
    match tokio::time::timeout(ANSWER_MAX, client.request_text(request)).await {
        Ok(text) => Ok(text?),
        Err(_) => Err(Error::Wrong(format!("/readyz of {name} gave no answer"))),
    }
}

async fn log(petri: &Petri<'_>) -> Result<String, Error> {
    let pods: Api<Pod> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let mut text = String::new();
    for pod in pods.list(&own()).await? {
        let params = LogParams { since_seconds: Some(30), ..LogParams::default() };
        text.push_str(
            &pods.logs(pod.metadata.name.as_deref().unwrap_or_default(), &params).await.unwrap_or_default(),
        );
    }
    Ok(text)
}

/// The rules of a role as they were.
struct Taken {
    place: &'static str,
    rules: Vec<PolicyRule>,
}

impl Taken {
    async fn take(petri: &Petri<'_>, right: &Right) -> Result<Self, Error> {
        let before = Self { place: right.0, rules: rules(petri, right.0).await? };
        let less = before.rules.iter().flat_map(|rule| less(rule, right)).collect();
        write(petri, right.0, less).await?;
        Ok(before)
    }

    async fn give_back(self, petri: &Petri<'_>) -> Result<(), Error> {
        write(petri, self.place, self.rules).await
    }
}

/// Returns what is left of a rule; with the right to watch goes the one to list.
fn less(rule: &PolicyRule, (_, verb, group, resource): &Right) -> Vec<PolicyRule> {
    let has = |list: &Option<Vec<String>>, word: &String| list.iter().flatten().any(|one| one == word);
    if !has(&rule.api_groups, group) || !has(&rule.resources, resource) || !rule.verbs.contains(verb) {
        return vec![rule.clone()];
    }
    let (mut others, mut same) = (rule.clone(), rule.clone());
    others.resources =
        Some(rule.resources.iter().flatten().filter(|one| *one != resource).cloned().collect());
    same.resources = Some(vec![resource.clone()]);
    same.verbs.retain(|one| one != verb && !(verb == "watch" && one == "list"));
    let some = |rule: &PolicyRule| !rule.verbs.is_empty() && rule.resources.iter().flatten().next().is_some();
    [others, same].into_iter().filter(some).collect()
}

async fn rules(petri: &Petri<'_>, place: &str) -> Result<Vec<PolicyRule>, Error> {
    let cluster: Api<ClusterRole> = Api::all(petri.lab.client());
    let rules = match place {
        EVERYWHERE => cluster.get("petri-operator").await?.rules,
        WORKLOAD => cluster.get("petri-operator-workload").await?.rules,
        OWN => role(petri, MANAGEMENT).get("petri-operator").await?.rules,
        SHARED => role(petri, SHARED_NAMESPACE).get("petri-operator").await?.rules,
        other => return Err(Error::Wrong(format!("no such place: {other}"))),
    };
    Ok(rules.unwrap_or_default())
}

fn role(petri: &Petri<'_>, namespace: &str) -> Api<Role> {
    Api::namespaced(petri.lab.client(), namespace)
}

async fn write(petri: &Petri<'_>, place: &str, rules: Vec<PolicyRule>) -> Result<(), Error> {
    let params = PostParams::default();
    let cluster: Api<ClusterRole> = Api::all(petri.lab.client());
    let of_cluster = async |name: &str| {
        let role = ClusterRole { rules: Some(rules.clone()), ..cluster.get(name).await? };
        cluster.replace(name, &params, &role).await.map(drop)
    };
    let of_namespace = async |namespace: &str| {
        let roles = role(petri, namespace);
        let changed = Role { rules: Some(rules.clone()), ..roles.get("petri-operator").await? };
        roles.replace("petri-operator", &params, &changed).await.map(drop)
    };
    match place {
        EVERYWHERE => of_cluster("petri-operator").await?,
        WORKLOAD => of_cluster("petri-operator-workload").await?,
        OWN => of_namespace(MANAGEMENT).await?,
        _ => of_namespace(SHARED_NAMESPACE).await?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_right_goes_and_every_other_stays() {
        let words = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let rule = PolicyRule {
            api_groups: Some(words(&[""])),
            resources: Some(words(&["pods", "services"])),
            verbs: words(&["get", "list", "watch"]),
            ..PolicyRule::default()
        };
        let right =
            |verb: &str, resource: &str| (EVERYWHERE, verb.to_owned(), String::new(), resource.to_owned());
        let left = less(&rule, &right("watch", "pods"));
        assert_eq!(left[0].resources, Some(words(&["services"])));
        assert_eq!(
            (left[1].resources.clone(), left[1].verbs.clone()),
            (Some(words(&["pods"])), words(&["get"]))
        );
        assert_eq!(less(&rule, &right("get", "secrets")), std::slice::from_ref(&rule));
    }
}
