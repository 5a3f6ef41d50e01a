//! The login of a chart source, from its mounted Secret; it reaches helm and git through files and
//! environment.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use petri_machines::reason::FailureReason;
use serde_json::{Value, json};

use crate::deployer::classify::Failure;
use crate::deployer::files;
use crate::deployer::mask::base64;

/// Holds what the Secret of a chart source has; by default nothing.
#[derive(Default)]
pub struct Credentials {
    username: Option<String>,
    password: Option<String>,
    token: Option<String>,
    docker_config: Option<(PathBuf, String)>,
    ca_file: Option<PathBuf>,
    ssh_key: Option<String>,
    known_hosts: Option<PathBuf>,
}

impl Credentials {
    /// Reads the keys of a mounted Secret; other keys mean nothing.
    ///
    /// # Errors
    /// The directory is not there.
    pub fn read(directory: &Path) -> Result<Self, Failure> {
        if !directory.is_dir() {
            let message = format!("credentialsSecretRef is set and {} is not mounted", directory.display());
            return Err(Failure::new(FailureReason::SourceUnauthorized, message));
        }
        let path = |key: &str| Some(directory.join(key)).filter(|path| path.is_file());
        let text = |key: &str| path(key).and_then(|path| fs::read_to_string(path).ok());
        let line = |key: &str| text(key).map(|text| text.trim_end_matches(['\r', '\n']).to_owned());
        Ok(Self {
            username: line("username"),
            password: line("password"),
            token: line("token"),
            docker_config: path(".dockerconfigjson").zip(text(".dockerconfigjson")),
            ca_file: path("ca.crt"),
            ssh_key: text("ssh-privatekey"),
            known_hosts: path("known_hosts"),
        })
    }

    /// Gives every text that must not be shown.
    pub fn secrets(&self) -> Vec<String> {
        let single = [&self.password, &self.token, &self.ssh_key];
        let mut secrets: Vec<String> = single.into_iter().flatten().cloned().collect();
        secrets.extend(self.authorization());
        if let Some((_, text)) = &self.docker_config {
            let auths = serde_json::from_str::<Value>(text).ok();
            let auths = auths.as_ref().and_then(|config| config.get("auths")?.as_object());
            let entries = auths.into_iter().flat_map(|auths| auths.values()).filter_map(Value::as_object);
            let hidden = ["password", "auth", "identitytoken", "registrytoken"];
            let fields =
                entries.flat_map(|entry| hidden.into_iter().filter_map(|key| entry.get(key)?.as_str()));
            secrets.extend(fields.map(str::to_owned));
        }
        secrets
    }

    /// Says whether there is a user name with a password or token.
    pub fn has_login(&self) -> bool {
        self.login().is_some()
    }

    /// A token goes in place of a password, under the user name that the large git hosts accept for any
    /// token.
    fn login(&self) -> Option<(&str, &str)> {
        let password = self.password.as_deref().or(self.token.as_deref())?;
        Some((self.username.as_deref().unwrap_or("x-access-token"), password))
    }

    /// Gives the login in the form of HTTP's basic authentication.
    pub fn authorization(&self) -> Option<String> {
        self.login().map(|(user, password)| base64(format!("{user}:{password}").as_bytes()))
    }

    /// Gives helm's arguments for a certificate authority of one's own.
    pub fn tls_arguments(&self) -> Vec<OsString> {
        match &self.ca_file {
            Some(path) => vec!["--ca-file".into(), path.clone().into_os_string()],
            None => Vec::new(),
        }
    }

    /// Gives the file of a certificate authority of one's own.
    pub fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// Gives user name and password, or token, to name in a list of repositories.
    pub fn repository_login(&self) -> Option<Value> {
        self.login().map(|(username, password)| json!({"username": username, "password": password}))
    }

    /// Gives the private key and the file of known hosts, both of which git needs over ssh.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn ssh(&self) -> Result<(&str, &Path), Failure> {
        self.ssh_key.as_deref().zip(self.known_hosts.as_deref()).ok_or_else(|| {
            let message =
                "git over ssh needs ssh-privatekey and known_hosts in the Secret of credentialsSecretRef";
            Failure::new(FailureReason::SourceUnauthorized, message)
        })
    }

    /// Writes helm's list of repositories with the one entry `source`; nothing without a login.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn repository_config(&self, url: &str, work: &Path) -> Result<Option<PathBuf>, Failure> {
        let Some((username, password)) = self.login() else {
            return Ok(None);
        };
        let ca_file = self.ca_file.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let mut entry = json!({"name": "source", "url": url, "caFile": ca_file});
        entry["username"] = json!(username);
        entry["password"] = json!(password);
        let config = json!({"apiVersion": "v1", "repositories": [entry]}).to_string();
        files::write(&work.join("repositories.yaml"), config.as_bytes()).map(Some)
    }

    /// Gives helm's login for OCI registries: the mounted one, or one written for the host of `source`, a URL.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn registry_config(&self, source: Option<&str>, work: &Path) -> Result<Option<PathBuf>, Failure> {
        if let Some((path, _)) = &self.docker_config {
            return Ok(Some(path.clone()));
        }
        let host = source.and_then(|source| source.split_once("://")?.1.split('/').next());
        let Some((host, authorization)) = host.zip(self.authorization()) else {
            return Ok(None);
        };
        let config = json!({"auths": {host: {"auth": authorization}}}).to_string();
        files::write(&work.join("registry.json"), config.as_bytes()).map(Some)
    }
}
