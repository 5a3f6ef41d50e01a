//! The API server's audit log: what was really asked of it, by whom, in order.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use serde::Deserialize;

use crate::petri::Error;

/// One request as the API server answered it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    stage: String,
    /// The verb, as RBAC knows it.
    pub verb: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
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
}

#[derive(Debug, Clone, Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

impl Request {
    /// Returns the kind of write this is, `verb resource/subresource`, if it is one that was taken.
    pub fn write(&self) -> Option<String> {
        let taken =
            self.response_status.as_ref().and_then(|status| status.code).is_some_and(|code| code < 300);
        let writes = matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete");
        let object = self.object_ref.as_ref()?;
        if !taken || !writes || self.stage != "ResponseComplete" {
            return None;
        }
        let sub =
            if object.subresource.is_empty() { String::new() } else { format!("/{}", object.subresource) };
        Some(format!("{} {}{sub}", self.verb, object.resource))
    }

    /// Whether this account asked.
    pub fn is_by(&self, username: &str) -> bool {
        self.user.username == username
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
