//! The audit log as a source of times: when the cluster reported something, and when somebody wrote next.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::petri::Error;

/// The operator's account.
pub const OPERATOR: &str = "system:serviceaccount:petri-system:petri-operator";

/// One request as the API server answered it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    stage: String,
    /// The verb, as RBAC knows it.
    pub verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    user: User,
    #[serde(default)]
    object_ref: Option<ObjectRef>,
    #[serde(default)]
    response_status: Option<ResponseStatus>,
    /// When the request had arrived.
    #[serde(rename = "requestReceivedTimestamp")]
    pub asked: Timestamp,
    /// When it was answered.
    #[serde(rename = "stageTimestamp")]
    pub done: Timestamp,
    /// The body, where the policy of the audit log keeps it.
    #[serde(default)]
    pub request_object: Value,
    /// The answer's body, likewise.
    #[serde(default)]
    pub response_object: Value,
}

#[derive(Debug, Clone, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Debug, Clone, Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

impl Entry {
    /// Whether it was taken.
    pub fn is_taken(&self) -> bool {
        self.response_status.as_ref().and_then(|status| status.code).is_some_and(|code| code < 300)
    }

    /// Whether it was asked for by this account.
    pub fn is_by(&self, username: &str) -> bool {
        self.user.username == username
    }

    /// Whether a kubelet asked for it.
    fn is_by_a_node(&self) -> bool {
        self.user.username.starts_with("system:node:")
    }

    /// Whether it changes what is stored, if it is taken.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Returns `resource` or `resource/subresource`.
    pub fn resource(&self) -> String {
        match self.object_ref.as_ref() {
            None => self.uri.clone(),
            Some(object) if object.subresource.is_empty() => object.resource.clone(),
            Some(object) => format!("{}/{}", object.resource, object.subresource),
        }
    }

    /// Returns the object's name.
    pub fn name(&self) -> &str {
        self.object_ref.as_ref().map_or("", |object| &object.name)
    }

    /// Returns the object's namespace.
    pub fn namespace(&self) -> &str {
        self.object_ref.as_ref().map_or("", |object| &object.namespace)
    }

    /// Whether this is a request of this verb on this resource, and was taken.
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource() == resource && self.is_taken()
    }

    /// Whether a kubelet reports by this that the deployer's container has ended.
    pub fn ends_deployer(&self) -> bool {
        let statuses = self.request_object.pointer("/status/containerStatuses").and_then(Value::as_array);
        let ended = |one: &Value| one["name"] == "deployer" && one["state"]["terminated"].is_object();
        self.is("patch", "pods/status") && self.is_by_a_node() && statuses.into_iter().flatten().any(ended)
    }

    /// Whether a Job's controller says by this that it is complete.
    pub fn completes_job(&self) -> bool {
        let conditions = self.request_object.pointer("/status/conditions").and_then(Value::as_array);
        let complete = |one: &Value| one["type"] == "Complete" && one["status"] == "True";
        self.is("update", "jobs/status") && conditions.into_iter().flatten().any(complete)
    }

    /// Whether a Deployment is said to be available by this.
    pub fn makes_available(&self) -> bool {
        let available = &self.request_object["status"]["availableReplicas"];
        self.is("update", "deployments/status") && available.as_u64().is_some_and(|available| available > 0)
    }

    /// Returns a label of the body's object.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.request_object["metadata"]["labels"][key].as_str()
    }

    /// Whether this write left the stored object as it was; known for status writes of service accounts only.
    pub fn changes_nothing(&self) -> bool {
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let (before, after) = (version(&self.request_object), version(&self.response_object));
        self.is_taken() && before.is_some() && before == after
    }

    /// Whether the request's address contains this.
    pub fn uri_contains(&self, part: &str) -> bool {
        self.uri.contains(part)
    }
}

/// Follows the audit log from where it ended when the trail was begun.
pub struct Trail {
    path: PathBuf,
    at: u64,
}

impl Trail {
    /// Begins at the end of the log.
    pub fn from_now(path: PathBuf) -> Result<Self, Error> {
        let at = std::fs::metadata(&path).map_err(|source| Error::File { path: path.clone(), source })?.len();
        Ok(Self { path, at })
    }

    /// Returns everything since the beginning that was answered, in the order of the answers.
    pub fn entries(&self) -> Result<Vec<Entry>, Error> {
        let file = |source| Error::File { path: self.path.clone(), source };
        let mut log = std::fs::File::open(&self.path).map_err(file)?;
        if log.metadata().map_err(file)?.len() < self.at {
            return Err(Error::Wrong("the audit log was moved aside: take a fresh cluster".to_owned()));
        }
        log.seek(SeekFrom::Start(self.at)).map_err(file)?;
        let mut text = String::new();
        log.read_to_string(&mut text).map_err(file)?;
        // The last line may be half written.
        let whole = text.rfind('\n').unwrap_or(0);
        let mut entries = Vec::new();
        for line in text[..whole].lines() {
            let entry: Entry = serde_json::from_str(line)
                .map_err(|error| Error::Wrong(format!("an audit line cannot be read: {error}: {line}")))?;
            if entry.stage == "ResponseComplete" || entry.verb == "watch" {
                entries.push(entry);
            }
        }
        entries.sort_by_key(|entry| entry.done);
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(verb: &str, resource: &str, subresource: &str, user: &str, request: Value) -> Entry {
        serde_json::from_value(json!({
            "stage": "ResponseComplete", "verb": verb, "requestURI": "/x?fieldManager=m", "user": {"username": user},
            "objectRef": {"resource": resource, "subresource": subresource, "name": "n"},
            "responseStatus": {"code": 200},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.000001Z", "stageTimestamp": "2026-01-01T00:00:00.5Z",
            "requestObject": request,
        }))
        .unwrap()
    }

    #[test]
    fn only_the_kubelets_report_of_the_deployers_end_counts() {
        let status = |state: &str, name: &str| json!({"status": {"containerStatuses": [{"name": name, "state": {state: {"exitCode": 0}}}]}});
        let patch = |body, user: &str| entry("patch", "pods", "status", user, body).ends_deployer();
        assert!(patch(status("terminated", "deployer"), "system:node:lab"));
        assert!(!patch(status("running", "deployer"), "system:node:lab"));
        assert!(!patch(status("terminated", "sidecar"), "system:node:lab"));
        assert!(!patch(status("terminated", "deployer"), "system:kube-scheduler"));
    }

    #[test]
    fn a_write_changes_nothing_when_the_version_stays() {
        let body = |version: &str| json!({"metadata": {"resourceVersion": version}});
        let mut write = entry("update", "ephemeralenvironments", "status", OPERATOR, body("7"));
        write.response_object = body("7");
        assert!(write.changes_nothing());
        write.response_object = body("8");
        assert!(!write.changes_nothing());
        write.request_object = Value::Null;
        assert!(!write.changes_nothing(), "what is not known is not held against it");
    }
}
