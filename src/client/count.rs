//! Counts requests to the API server by verb, resource and code, and remembers what was refused for lack of a right.
use super::{
    Denials,
    answers::{Heard, Listener},
    refused::lacks_right,
};
use crate::telemetry::metrics::{ApiLabels, Metrics};
use axum::http::{Method, Request, Uri};
use kube::core::Status;

/// Counts into `petri_api_requests_total`.
#[derive(Clone, Debug)]
pub struct CountRequests {
    metrics: Metrics,
    denials: Denials,
}

impl CountRequests {
    /// Counts into these.
    pub fn new(metrics: Metrics, denials: Denials) -> Self {
        Self { metrics, denials }
    }
}

/// What a request is counted as.
#[derive(Debug)]
pub struct Asked {
    verb: &'static str,
    resource: String,
    namespace: Option<String>,
}

impl Listener for CountRequests {
    type Asked = Asked;

    fn asked<A>(&self, request: &Request<A>) -> Asked {
        let (verb, resource) = classify(request.method(), request.uri());
        Asked { verb, resource, namespace: namespace(request.uri()).map(str::to_owned) }
    }

    fn answered(&self, asked: Asked, answer: Option<Heard<'_>>) {
        let Asked { verb, resource, namespace } = asked;
        let code = answer.map_or(0, |answer| answer.head.status.as_u16());
        match answer {
            // Neither says anything about rights: no answer, and a refusal for another reason.
            None => {}
            Some(answer) if code == 403 && !is_missing_right(answer.refusal) => {}
            Some(_) => self.denials.answered(verb, &resource, namespace.as_deref(), code == 403),
        }
        self.metrics.api_requests.get_or_create(&ApiLabels { verb, resource, code }).inc();
    }
}

fn is_missing_right(refusal: &[u8]) -> bool {
    serde_json::from_slice(refusal).is_ok_and(|status: Status| lacks_right(&status))
}

/// Names verb and resource as RBAC does. Both are bounded: no name or namespace is part of them.
fn classify(method: &Method, uri: &Uri) -> (&'static str, String) {
    let mut path = uri.path().trim_matches('/').split('/');
    match path.next() {
        Some("api") => drop(path.next()),
        Some("apis") => drop((path.next(), path.next())),
        _ => return ("get", "other".to_owned()),
    }
    let mut rest: Vec<&str> = path.collect();
    if rest.first() == Some(&"namespaces")
        && rest.len() > 2
        && !matches!(rest.get(2), Some(&"finalize" | &"status"))
    {
        rest.drain(..2);
    }
    let named = rest.len() > 1;
    let resource = match rest.as_slice() {
        [resource, _, subresource, ..] => format!("{resource}/{subresource}"),
        [resource, ..] => (*resource).to_owned(),
        [] => "other".to_owned(),
    };
    let watch = uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
    let verb = match *method {
        Method::GET if watch => "watch",
        Method::GET if named => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => "other",
    };
    (verb, resource)
}

/// Names the namespace of a request, if it is about one.
fn namespace(uri: &Uri) -> Option<&str> {
    let (_, rest) = uri.path().split_once("/namespaces/")?;
    rest.split('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Listen;
    use axum::{
        body::{Body, to_bytes},
        http::Response,
    };
    use std::{convert::Infallible, future::ready};
    use tower::{Layer, ServiceExt, service_fn};

    fn check(method: Method, path: &str, verb: &str, resource: &str) {
        let got = classify(&method, &path.parse().unwrap());
        assert_eq!(got, (verb, resource.to_owned()), "{method} {path}");
    }

    #[test]
    fn a_request_is_counted_by_verb_and_resource_and_never_by_name() {
        check(Method::GET, "/api/v1/namespaces/petri-env-1", "get", "namespaces");
        check(Method::POST, "/api/v1/namespaces?", "create", "namespaces");
        check(Method::DELETE, "/api/v1/namespaces/x", "delete", "namespaces");
        check(Method::PUT, "/api/v1/namespaces/x/finalize", "update", "namespaces/finalize");
        check(Method::GET, "/api/v1/namespaces/x/pods?limit=5", "list", "pods");
        check(Method::GET, "/api/v1/pods?&watch=true&timeoutSeconds=190", "watch", "pods");
        check(Method::GET, "/api/v1/namespaces/x/pods/y/log", "get", "pods/log");
        check(Method::POST, "/apis/batch/v1/namespaces/x/jobs", "create", "jobs");
        let environments = "/apis/core.petri.run/v1alpha1/namespaces/petri-system/ephemeralenvironments";
        check(Method::PUT, &format!("{environments}/a/status"), "update", "ephemeralenvironments/status");
        check(Method::PATCH, &format!("{environments}/a"), "patch", "ephemeralenvironments");
        check(Method::GET, "/version", "get", "other");
    }

    async fn ask(denials: &Denials, code: u16, message: &str) {
        let status = Status::failure(message, "Forbidden").with_code(code);
        let answer = move |_: Request<()>| {
            let body = Body::from(serde_json::to_vec(&status).unwrap());
            ready(Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()))
        };
        let asks = Request::post("/apis/batch/v1/namespaces/petri-env-1/jobs").body(()).unwrap();
        let count = CountRequests::new(Metrics::default(), denials.clone());
        let answer = Listen(count).layer(service_fn(answer)).oneshot(asks).await.unwrap();
        let read = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let read: Status = serde_json::from_slice(&read).unwrap();
        assert_eq!(read.message, message, "who asked reads it, too");
    }

    #[tokio::test]
    async fn a_quota_and_a_namespace_that_goes_are_no_missing_rights() {
        let denials = Denials::default();
        ask(&denials, 403, "jobs \"x\" is forbidden: exceeded quota: petri").await;
        ask(
            &denials,
            403,
            "jobs \"x\" is forbidden: unable to create new content because it is being terminated",
        )
        .await;
        assert_eq!(denials.text(), "");
        let right = "jobs is forbidden: User \"x\" cannot create resource \"jobs\" in API group \"batch\"";
        ask(&denials, 403, right).await;
        assert_eq!(denials.text(), "right missing: create jobs in namespace petri-env-1\n");
        ask(&denials, 403, "not even words of Kubernetes").await;
        assert_eq!(denials.text(), "right missing: create jobs in namespace petri-env-1\n");
        ask(&denials, 409, "jobs \"x\" already exists").await;
        assert_eq!(denials.text(), "");
        let binding =
            "user \"x\" (groups=[\"y\"]) is attempting to grant RBAC permissions not currently held:";
        ask(&denials, 403, binding).await;
        assert_eq!(denials.text(), "right missing: create jobs in namespace petri-env-1\n");
    }
}
