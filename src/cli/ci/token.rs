//! The pipeline's identity token: given, or asked of GitHub for each request, since GitHub's live five minutes.

use super::CiError;
use crate::error::causes;
use reqwest::{Client, Url};

/// Where tokens come from.
#[derive(Debug)]
pub(super) enum Tokens {
    /// One that was given; GitLab's `id_tokens` give it by the name that the pipeline chooses.
    Given(String),
    /// GitHub's service, with its own credential.
    GitHub(Url, String),
}

impl Tokens {
    pub(super) fn find(audience: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, CiError> {
        if let Some(token) = env("PETRI_TOKEN") {
            return Ok(Self::Given(token));
        }
        let (Some(url), Some(credential)) =
            (env("ACTIONS_ID_TOKEN_REQUEST_URL"), env("ACTIONS_ID_TOKEN_REQUEST_TOKEN"))
        else {
            let why = "no identity token: on GitHub the job needs `permissions: {id-token: write}`, \
                       on GitLab `id_tokens: {PETRI_TOKEN: {aud: petri}}`; elsewhere set PETRI_TOKEN";
            return Err(CiError::Usage(why.to_owned()));
        };
        let mut url = Url::parse(&url)
            .map_err(|_| CiError::Usage("ACTIONS_ID_TOKEN_REQUEST_URL is no URL".to_owned()))?;
        url.query_pairs_mut().append_pair("audience", audience);
        Ok(Self::GitHub(url, credential))
    }

    pub(super) async fn get(&self, client: &Client) -> Result<String, CiError> {
        let (url, credential) = match self {
            Self::Given(token) => return Ok(token.clone()),
            Self::GitHub(url, credential) => (url, credential),
        };
        let failed = |error: reqwest::Error| {
            CiError::Unreachable(format!("the identity provider: {}", causes(&error.without_url())))
        };
        let answer = client.get(url.clone()).bearer_auth(credential).send().await.map_err(failed)?;
        let answer = answer.error_for_status().map_err(failed)?.bytes().await.map_err(failed)?;
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap_or_default();
        answer["value"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| CiError::Unreachable("the identity provider's answer has no token".to_owned()))
    }
}
