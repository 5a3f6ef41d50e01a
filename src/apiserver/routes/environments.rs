//! What writes environments, and the read of one.

use super::{
    described::{Absent, Named, Refused, TooLong, Unread},
    reply,
};
use crate::apiserver::{
    App,
    body::{self, Extension as Longer, Wanted},
    cluster::{Written, annotate},
    error::{ApiError, ErrorBody},
    identity::Principal,
    trail::{Trail, random_id},
    view::{Environment, decoded},
};
use axum::{
    Extension,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use kube::api::DynamicObject;
use petri_crds::{EnvValue, EphemeralEnvironment, meta::ANNOTATION_RETRY};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

fn shown(code: StatusCode, object: &DynamicObject) -> Result<Response, ApiError> {
    Ok(reply(code, &Environment::from(&decoded(object)?)))
}

/// Creates an environment, or changes the one of this name.
#[utoipa::path(post, path = "/v1/environments", operation_id = "upsertEnvironment", request_body = Wanted,
    responses(
        Refused, TooLong, Unread,
        (status = 201, description = "Created", body = Environment),
        (status = 200, description = "Changed, or as it was", body = Environment),
        (status = 409, description = "Changed at the same time, being deleted, or another repository's", body = ErrorBody),
    ))]
pub(super) async fn upsert(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Extension(trail): Extension<Trail>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let wanted: Wanted = body::read(&headers, body).await?;
    wanted.check()?;
    trail.about(&wanted.name);
    let lay = |object: &mut Value| lay_over(object, &wanted);
    let parent = trail.traceparent();
    let (written, object) = app.cluster.upsert(&principal, &wanted.name, parent.as_deref(), lay).await?;
    trail.wrote(written);
    shown(if written == Written::Created { StatusCode::CREATED } else { StatusCode::OK }, &object)
}

/// Lays what is wanted over an object: what is absent stays, a map replaces, an empty ttl goes back to the template's.
fn lay_over(object: &mut Value, wanted: &Wanted) -> Result<(), ApiError> {
    let spec = object.get_mut("spec").and_then(Value::as_object_mut).ok_or_else(ApiError::internal)?;
    if let Some(template) = &wanted.template {
        spec.insert("template".to_owned(), template.clone().into());
    }
    if let Some(ttl) = &wanted.ttl {
        put(spec, "ttl", ttl.clone().into(), ttl.is_empty());
    }
    if let Some(values) = &wanted.values {
        put(spec, "values", json!(values), values.is_empty());
    }
    if let Some(env) = &wanted.env {
        let env: BTreeMap<&String, EnvValue> =
            env.iter().map(|(name, value)| (name, value.clone().into())).collect();
        put(spec, "env", json!(env), env.is_empty());
    }
    if let Some(source) = &wanted.source {
        let mut merged = spec.get("source").and_then(Value::as_object).cloned().unwrap_or_default();
        for (name, given) in [("repo", &source.repo), ("branch", &source.branch), ("sha", &source.sha)] {
            if let Some(given) = given {
                put(&mut merged, name, given.clone().into(), given.is_empty());
            }
        }
        let empty = merged.is_empty();
        put(spec, "source", merged.into(), empty);
    }
    Ok(())
}

/// Sets a field, or takes it away where empty and absent mean the same: so nothing looks like a change that is none.
fn put(fields: &mut Map<String, Value>, name: &str, value: Value, empty: bool) {
    if empty {
        fields.remove(name);
    } else {
        fields.insert(name.to_owned(), value);
    }
}

/// Shows an environment.
#[utoipa::path(get, path = "/v1/environments/{name}", operation_id = "getEnvironment",
    params(Named),
    responses(
        Refused, TooLong, Absent,
        (status = 200, description = "The environment", body = Environment),
    ))]
pub(super) async fn read(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    body::check_name(&name)?;
    shown(StatusCode::OK, &app.cluster.get(&principal, &name).await?)
}

/// Asks for the deletion of an environment; while it is on its way, asking again is as good.
#[utoipa::path(delete, path = "/v1/environments/{name}", operation_id = "deleteEnvironment",
    params(Named),
    responses(
        Refused, TooLong, Absent,
        (status = 204, description = "It will be deleted"),
        (status = 409, description = "Another took its place at the same time", body = ErrorBody),
    ))]
pub(super) async fn delete(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Extension(trail): Extension<Trail>,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    body::check_name(&name)?;
    body::none(body).await?;
    trail.about(&name);
    app.cluster.delete(&principal, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Lets an environment live longer.
#[utoipa::path(post, path = "/v1/environments/{name}/extend", operation_id = "extendEnvironment", request_body = Longer,
    params(Named),
    responses(
        Refused, TooLong, Absent, Unread,
        (status = 200, description = "It lives longer", body = Environment),
        (status = 400, description = "Malformed, not later, or later than may be", body = ErrorBody),
        (status = 409, description = "Changed at the same time, being deleted, or it does not expire", body = ErrorBody),
    ))]
pub(super) async fn extend(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Extension(trail): Extension<Trail>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    body::check_name(&name)?;
    trail.about(&name);
    let longer: Longer = body::read(&headers, body).await?;
    let wanted: Timestamp = longer
        .expires_at
        .parse()
        .map_err(|_| ApiError::invalid("expiresAt: must be a time such as 2030-01-01T12:00:00Z"))?;
    let now = app.clock.wall();
    let latest = now.checked_add(app.extension_max).unwrap_or(Timestamp::MAX);
    let lengthen = |object: &mut Value| {
        let ttl = longer_ttl(object, wanted, latest)?;
        let spec = object.get_mut("spec").and_then(Value::as_object_mut).ok_or_else(ApiError::internal)?;
        spec.insert("ttl".to_owned(), ttl.into());
        Ok(())
    };
    let (written, object) = app.cluster.amend(&principal, &name, lengthen).await?;
    trail.wrote(written);
    shown(StatusCode::OK, &object)
}

/// A ttl counts from the creation, so a later expiry is a longer ttl.
fn longer_ttl(object: &Value, wanted: Timestamp, latest: Timestamp) -> Result<String, ApiError> {
    let environment: EphemeralEnvironment =
        serde_json::from_value(object.clone()).map_err(|_| ApiError::internal())?;
    let planned = environment.status.as_ref().and_then(|status| status.expires_at.as_ref());
    let Some(planned) = planned else {
        let why = "the environment does not expire, or when it does is not known yet";
        return Err(ApiError::new(StatusCode::CONFLICT, "does_not_expire", why));
    };
    if wanted <= planned.0 {
        return Err(ApiError::invalid(format!("expiresAt: must be later than {}, as planned", planned.0)));
    }
    if wanted > latest {
        return Err(ApiError::invalid(format!("expiresAt: must not be later than {latest}")));
    }
    let created = environment.metadata.creation_timestamp.ok_or_else(ApiError::internal)?.0;
    Ok(format!("{}s", wanted.as_second().saturating_sub(created.as_second())))
}

/// Runs the whole rollout again.
#[utoipa::path(post, path = "/v1/environments/{name}/retry", operation_id = "retryEnvironment",
    params(Named),
    responses(
        Refused, TooLong, Absent,
        (status = 200, description = "It runs again", body = Environment),
        (status = 409, description = "Changed at the same time, or being deleted", body = ErrorBody),
    ))]
pub(super) async fn retry(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Extension(trail): Extension<Trail>,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    body::check_name(&name)?;
    body::none(body).await?;
    trail.about(&name);
    let token = random_id();
    let again = |object: &mut Value| annotate(object, ANNOTATION_RETRY, &token);
    let (written, object) = app.cluster.amend(&principal, &name, again).await?;
    trail.wrote(written);
    shown(StatusCode::OK, &object)
}
