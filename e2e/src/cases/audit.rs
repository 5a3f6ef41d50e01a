//! The API server's audit log: what was really asked of it, by whom, in order.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use crate::petri::Error;

/// Where a bound token says which Pod it belongs to.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";

/// One request as the API server answered it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    stage: String,
    /// The verb, as RBAC knows it.
    pub verb: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    /// What was sent, where the audit policy keeps it.
    pub request_object: Value,
    /// What was answered, where the audit policy keeps it.
    pub response_object: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct User {
    username: String,
    extra: std::collections::BTreeMap<String, Vec<String>>,
}

/// What a request is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    /// Plural name of the kind.
    pub resource: String,
    /// Such as `status`; mostly empty.
    pub subresource: String,
    /// Empty for the core group.
    pub api_group: String,
    /// Empty outside namespaces; a namespace's own name for the namespace itself.
    pub namespace: String,
    /// Empty for a list.
    pub name: String,
    /// Identity, where the request carried it.
    pub uid: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: Option<u16>,
    message: String,
}

impl ObjectRef {
    /// Returns `resource` or `resource/subresource`, as RBAC writes it.
    pub fn kind(&self) -> String {
        if self.subresource.is_empty() {
            return self.resource.clone();
        }
        format!("{}/{}", self.resource, self.subresource)
    }
}

impl Request {
    /// Returns the kind of write this is, `verb resource/subresource`, if it is one that was taken.
    pub fn write(&self) -> Option<String> {
        let taken = self.code().is_some_and(|code| code < 300);
        let writes = matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete");
        let object = self.object_ref.as_ref()?;
        if !taken || !writes || !self.is_complete() {
            return None;
        }
        Some(format!("{} {}", self.verb, object.kind()))
    }

    /// Whether this account asked.
    pub fn is_by(&self, username: &str) -> bool {
        self.user.username == username
    }

    /// Whether this is the end of the request, not its begin.
    pub fn is_complete(&self) -> bool {
        self.stage == "ResponseComplete"
    }

    /// Returns the answer's code.
    pub fn code(&self) -> Option<u16> {
        self.response_status.as_ref()?.code
    }

    /// Returns what a refusal said.
    pub fn message(&self) -> &str {
        self.response_status.as_ref().map_or("", |status| &status.message)
    }

    /// Returns what the request is about; nothing for a request that is not about objects.
    pub fn object(&self) -> Option<&ObjectRef> {
        self.object_ref.as_ref()
    }

    /// Returns the Pod that asked; empty for a token that is bound to none.
    pub fn pod(&self) -> &str {
        self.user.extra.get(POD_NAME).and_then(|names| names.first()).map_or("", String::as_str)
    }
}

/// Follows the audit log from where it ends now.
pub struct Audit {
    path: PathBuf,
    at: u64,
    rest: String,
}

impl Audit {
    /// Begins at the end of the log.
    pub fn from_now(path: PathBuf) -> Result<Self, Error> {
        let at = std::fs::metadata(&path).map_err(|source| Error::File { path: path.clone(), source })?.len();
        Ok(Self { path, at, rest: String::new() })
    }

    /// Begins at the beginning of the log.
    pub fn from_the_start(path: PathBuf) -> Self {
        Self { path, at: 0, rest: String::new() }
    }

    /// Returns what was logged since the last call.
    pub fn news(&mut self) -> Result<Vec<Request>, Error> {
        let file = |source| Error::File { path: self.path.clone(), source };
        let mut log = std::fs::File::open(&self.path).map_err(file)?;
        log.seek(SeekFrom::Start(self.at)).map_err(file)?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes).map_err(file)?;
        self.at += bytes.len() as u64;
        self.rest.push_str(&String::from_utf8_lossy(&bytes));
        let whole = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.rest.drain(..whole).collect();
        Ok(lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}
