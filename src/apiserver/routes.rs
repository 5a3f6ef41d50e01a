//! The REST API, and its description, which is generated from it.

mod described;
mod environments;
mod lists;
mod watch;

use crate::apiserver::{App, error::ApiError, gate, trail};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use utoipa::{
    Modify, OpenApi,
    openapi::security::{Http, HttpAuthScheme, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Longest answer that is no stream: a page of the longest environments is not. Tests need not carry that much.
const ANSWER_MAX: usize = if cfg!(test) { 4 << 20 } else { 32 << 20 };

#[derive(OpenApi)]
#[openapi(
    info(title = "Petri", description = "Environments for pipelines that have an identity token and no kubeconfig."),
    modifiers(&Tokens),
    security(("token" = [])),
    components(schemas(crate::apiserver::error::ErrorBody))
)]
struct Description;

struct Tokens;

impl Modify for Tokens {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        openapi.components.get_or_insert_default().add_security_scheme("token", token);
    }
}

fn collected() -> (Router<App>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(lists::environments, environments::upsert))
        .routes(routes!(environments::read, environments::delete))
        .routes(routes!(environments::extend))
        .routes(routes!(environments::retry))
        .routes(routes!(lists::events))
        .routes(routes!(watch::watch))
        .routes(routes!(lists::templates))
        .split_for_parts()
}

/// Returns the description of the API.
pub fn description() -> utoipa::openapi::OpenApi {
    collected().1
}

/// Makes the routes of the main port.
pub fn router(app: App) -> Router {
    let (routes, description) = collected();
    let description = serde_json::to_value(&description).unwrap_or_default();
    let described = move || std::future::ready(reply(StatusCode::OK, &description));
    let inside = routes
        .route("/openapi.json", get(described))
        .route_layer(from_fn(gate::no_query))
        .fallback(async || ApiError::no_route())
        .method_not_allowed_fallback(async || ApiError::method())
        .layer(from_fn_with_state(app.clone(), gate::keep))
        .with_state(app.clone());
    let health = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready))
        .with_state(app.clone());
    inside.merge(health).layer(from_fn_with_state(app, trail::keep))
}

async fn ready(State(app): State<App>) -> Response {
    let report = app.readiness.report(&app.authenticator);
    let code = if report.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, report.text).into_response()
}

/// Answers with JSON that is whole before the first header goes out.
fn reply<T: Serialize>(code: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) if text.len() <= ANSWER_MAX => {
            (code, [(header::CONTENT_TYPE, "application/json")], Body::from(text)).into_response()
        }
        _ => ApiError::internal().into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    struct Broken;

    impl Serialize for Broken {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("not to be encoded"))
        }
    }

    #[test]
    fn scenario_226_what_cannot_be_encoded_or_is_too_large_is_an_error_before_any_header() {
        assert_eq!(reply(StatusCode::OK, &Broken).status(), StatusCode::INTERNAL_SERVER_ERROR);
        let large = "x".repeat(ANSWER_MAX);
        assert_eq!(reply(StatusCode::OK, &large).status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(reply(StatusCode::CREATED, &json!({})).status(), StatusCode::CREATED);
    }

    #[test]
    fn the_description_names_every_path_with_its_answers_and_an_example() {
        let described = serde_json::to_value(description()).unwrap();
        assert!(described["openapi"].as_str().unwrap().starts_with("3."), "{}", described["openapi"]);
        let paths: BTreeMap<String, BTreeMap<String, Value>> =
            serde_json::from_value(described["paths"].clone()).unwrap();
        let found: Vec<String> = paths
            .iter()
            .flat_map(|(path, methods)| methods.keys().map(move |method| format!("{method} {path}")))
            .collect();
        let expected = [
            "get /v1/environments",
            "post /v1/environments",
            "delete /v1/environments/{name}",
            "get /v1/environments/{name}",
            "get /v1/environments/{name}/events",
            "post /v1/environments/{name}/extend",
            "post /v1/environments/{name}/retry",
            "get /v1/environments/{name}/watch",
            "get /v1/templates",
        ];
        assert_eq!(found, expected);
        for (path, methods) in &paths {
            for (method, operation) in methods {
                let answers = operation["responses"].as_object().unwrap();
                for code in ["401", "403"] {
                    assert!(answers.contains_key(code), "{method} {path} does not say {code}");
                }
            }
        }
        let schemas = described["components"]["schemas"].as_object().unwrap();
        for schema in ["Wanted", "Extension", "Environment", "TemplateList", "EventList"] {
            assert!(schemas[schema].get("example").is_some(), "{schema} has no example");
        }
        let example = schemas["Wanted"]["example"].to_string();
        let wanted: crate::apiserver::body::Wanted =
            crate::apiserver::strict::decode(example.as_bytes()).unwrap();
        assert_eq!(wanted.check(), Ok(()));
        let shown = schemas["Environment"]["example"].clone();
        let read: crate::apiserver::view::Environment = serde_json::from_value(shown.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), shown);
    }
}
