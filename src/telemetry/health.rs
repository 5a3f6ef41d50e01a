//! `/healthz`, `/readyz` and `/metrics` over HTTP.
use crate::telemetry::metrics::{self, Metrics};
use axum::{
    Router,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use std::{fmt, io, net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, task::JoinHandle};

/// An answer to a probe: a line for each thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether all is well.
    pub ok: bool,
    /// For people.
    pub text: String,
}

/// Asked at every probe; must not block.
pub type Probe = Arc<dyn Fn() -> Report + Send + Sync>;

/// Makes the routes for probes.
pub fn probes(live: Probe, ready: Probe) -> Router {
    let route = |probe: Probe| get(move || std::future::ready(answer(&probe())));
    Router::new().route("/healthz", route(live)).route("/readyz", route(ready))
}

fn answer(report: &Report) -> (StatusCode, String) {
    let code = if report.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, report.text.clone())
}

/// Makes the route for metrics; `refresh` is called before each scrape.
pub fn scrape(metrics: Metrics, refresh: Arc<dyn Fn(&Metrics) + Send + Sync>) -> Router {
    let registry = Arc::new(metrics.registry());
    expose(move || {
        refresh(&metrics);
        metrics::encode(&registry)
    })
}

/// Makes the route for metrics out of what encodes them.
pub fn expose(encode: impl Fn() -> Result<String, fmt::Error> + Clone + Send + Sync + 'static) -> Router {
    let scrape = move || {
        std::future::ready(match encode() {
            Ok(text) => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                ([(header::CONTENT_TYPE, kind)], text).into_response()
            }
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        })
    };
    Router::new().route("/metrics", get(scrape))
}

/// Serves until the process ends; returns the address, which matters when port 0 was asked for.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    routes: Router,
) -> io::Result<(SocketAddr, JoinHandle<io::Result<()>>)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((bound, tokio::spawn(async move { axum::serve(listener, routes).await })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use tower::ServiceExt;

    async fn check(routes: Router, path: &str, code: StatusCode, text: &str) {
        let answer = routes.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), code, "{path}");
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        let body = String::from_utf8_lossy(&body);
        assert!(body.contains(text), "{path}: {body}");
    }

    fn probe(ok: bool, text: &'static str) -> Probe {
        Arc::new(move || Report { ok, text: text.to_owned() })
    }

    #[tokio::test]
    async fn a_probe_says_what_it_found_and_fails_by_its_code() {
        let routes = probes(probe(true, "all watches progress"), probe(false, "waiting for jobs"));
        check(routes.clone(), "/healthz", StatusCode::OK, "all watches progress").await;
        check(routes, "/readyz", StatusCode::SERVICE_UNAVAILABLE, "waiting for jobs").await;
    }

    #[tokio::test]
    async fn a_scrape_shows_what_the_refresh_found() {
        let refresh = |metrics: &Metrics| metrics.set_environments(&[("Ready", 2)].into());
        let routes = scrape(Metrics::default(), Arc::new(refresh));
        check(routes, "/metrics", StatusCode::OK, "petri_environments{phase=\"Ready\"} 2").await;
    }
}
