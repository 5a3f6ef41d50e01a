//! Lists: environments, templates, what was said about an environment.

use super::{
    described::{Absent, Named, Paged, Refused, TooLong},
    reply,
};
use crate::apiserver::{
    App,
    body::check_name,
    error::{ApiError, ErrorBody},
    identity::Principal,
    query,
    view::{Environment, EnvironmentList, Event, EventList, Template, TemplateList, decoded},
};
use axum::{
    Extension,
    extract::{Path, RawQuery, State},
    http::StatusCode,
    response::Response,
};
use k8s_openapi::api::core::v1::Event as KubeEvent;

/// Lists the environments of the token's repository; an administrator sees all.
#[utoipa::path(get, path = "/v1/environments", operation_id = "listEnvironments",
    params(Paged),
    responses(
        Refused, TooLong,
        (status = 200, description = "A page", body = EnvironmentList),
        (status = 400, description = "Malformed, or the continuation has expired", body = ErrorBody),
    ))]
pub(super) async fn environments(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let page = query::page(query.as_deref())?;
    let found = app.cluster.list(&principal, &page).await?;
    let items: Result<Vec<_>, _> =
        found.items.iter().map(|object| decoded(object).map(|one| Environment::from(&one))).collect();
    let r#continue = found.metadata.continue_.unwrap_or_default();
    Ok(reply(StatusCode::OK, &EnvironmentList { items: items?, r#continue }))
}

/// Lists the templates.
#[utoipa::path(get, path = "/v1/templates", operation_id = "listTemplates",
    params(Paged),
    responses(
        Refused, TooLong,
        (status = 200, description = "A page", body = TemplateList),
        (status = 400, description = "Malformed, or the continuation has expired", body = ErrorBody),
    ))]
pub(super) async fn templates(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let page = query::page(query.as_deref())?;
    let found = app.cluster.templates(&page).await?;
    let items = found.items.into_iter().map(|template| {
        let conditions = template.status.map(|status| status.conditions).unwrap_or_default();
        Template {
            name: template.metadata.name.unwrap_or_default(),
            accepted: conditions.iter().any(|one| one.type_ == "Accepted" && one.status == "True"),
        }
    });
    let list =
        TemplateList { items: items.collect(), r#continue: found.metadata.continue_.unwrap_or_default() };
    Ok(reply(StatusCode::OK, &list))
}

/// Lists what was said about an environment, oldest first.
#[utoipa::path(get, path = "/v1/environments/{name}/events", operation_id = "listEvents",
    params(Named),
    responses(
        Refused, TooLong, Absent,
        (status = 200, description = "What was said", body = EventList),
    ))]
pub(super) async fn events(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    check_name(&name)?;
    let mut found = app.cluster.events(&principal, &name).await?;
    found.sort_by_key(at);
    let items = found.into_iter().map(|event| Event {
        last_seen: at(&event).map(|at| at.to_string()),
        r#type: event.type_.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
        count: event.count.filter(|count| *count > 0).unwrap_or(1),
    });
    Ok(reply(StatusCode::OK, &EventList { items: items.collect() }))
}

fn at(event: &KubeEvent) -> Option<k8s_openapi::jiff::Timestamp> {
    let precise = event.event_time.as_ref().map(|at| at.0);
    event.last_timestamp.as_ref().map(|at| at.0).or(precise)
}
