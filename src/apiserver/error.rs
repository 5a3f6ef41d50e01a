//! Errors as clients see them: a stable code and a sentence. What Kubernetes says stays here.

use crate::error::CallError;
use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tracing::warn;
use utoipa::ToSchema;

/// The body of every answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// One stable word for programs.
    #[schema(example = "not_found")]
    pub code: Cow<'static, str>,
    /// A sentence for people; it may change.
    #[schema(example = "there is no such environment")]
    pub message: String,
}

/// An answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// One stable word.
    pub code: &'static str,
    /// A sentence.
    pub message: String,
}

impl ApiError {
    /// Makes one.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// The request itself is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// There is no good token.
    pub fn unauthenticated() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", "a valid bearer token is needed")
    }

    /// The identity is good and may not come in.
    pub fn forbidden() -> Self {
        let why = "neither this organization nor this repository may use this API";
        Self::new(StatusCode::FORBIDDEN, "forbidden", why)
    }

    /// There is no such path.
    pub fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is no such path")
    }

    /// There is no such environment, or none that this identity may know of.
    pub fn no_environment() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is no such environment")
    }

    /// The path does not do this.
    pub fn method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this path does not answer this method",
        )
    }

    /// Somebody else wrote at the same time.
    pub fn conflict() -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "conflict",
            "the environment was changed at the same time; read it and try again",
        )
    }

    /// The name belongs to another repository.
    pub fn name_taken() -> Self {
        Self::new(StatusCode::CONFLICT, "name_taken", "another repository uses this name")
    }

    /// It is on its way out.
    pub fn terminating() -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "terminating",
            "the environment is being deleted; try again when it is gone",
        )
    }

    /// The body is too long.
    pub fn too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "the body is longer than 1 MiB")
    }

    /// The body did not come in time.
    pub fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "the body did not arrive in time")
    }

    /// The body is no JSON by its own account.
    pub fn media_type() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "the body must be application/json",
        )
    }

    /// Whether a token is good cannot be known now.
    pub fn identity_provider() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "identity_provider_unavailable",
            "the identity provider does not answer; try again",
        )
    }

    /// Something that is not the client's to know.
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the request failed on the server's side")
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        let Some(status) = error.status() else {
            warn!(ambiguous = error.is_ambiguous(), "Kubernetes did not answer");
            return Self::internal();
        };
        match status.code {
            404 => Self::no_environment(),
            409 => Self::conflict(),
            410 => Self::invalid("this continuation has expired; list from the start"),
            400 | 422 => Self::invalid("the cluster refuses this as malformed"),
            code => {
                warn!(code, reason = status.reason, "Kubernetes refused");
                Self::internal()
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let detail = ErrorDetail { code: self.code.into(), message: self.message };
        let mut answer = (self.status, Json(ErrorBody { error: detail })).into_response();
        let headers = answer.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            }
            _ => {}
        }
        answer
    }
}
