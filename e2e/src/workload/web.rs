//! The web front: a page that greets and shows what the api says, and the api's own answer at `/api`.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, Uri, header},
    response::{Html, IntoResponse},
    routing::get,
};

use super::{WorkloadError, api::Answer, api::unavailable, http::fetch};

struct Front {
    greeting: String,
    api: Uri,
}

type Failure = (StatusCode, String);

/// Builds the routes `/` (a page), `/api` (the api's JSON) and `/healthz` (the api's).
pub fn router(greeting: String, api: Uri) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/api", get(forward))
        .route("/healthz", get(health))
        .with_state(Arc::new(Front { greeting, api }))
}

async fn page(State(front): State<Arc<Front>>) -> Result<Html<String>, Failure> {
    let body = fetch(&front.api, "/").await.map_err(unavailable)?;
    let answer =
        serde_json::from_str(&body).map_err(|error| unavailable(WorkloadError::Answer(error.to_string())));
    Ok(Html(render(&front.greeting, &answer?)))
}

async fn forward(State(front): State<Arc<Front>>) -> Result<impl IntoResponse, Failure> {
    let body = fetch(&front.api, "/").await.map_err(unavailable)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body))
}

async fn health(State(front): State<Arc<Front>>) -> Result<String, Failure> {
    fetch(&front.api, "/healthz").await.map_err(unavailable)
}

fn render(greeting: &str, answer: &Answer) -> String {
    let (greeting, database, marker) = (escape(greeting), escape(&answer.database), escape(&answer.marker));
    let Answer { instance, queries, work_rows, served_by, .. } = answer;
    format!(
        r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{greeting}</title>
<h1>{greeting}</h1>
<dl>
<dt>database<dd id="database">{database}
<dt>marker<dd id="marker">{marker}
<dt>instance<dd id="instance">{}
<dt>queries<dd id="queries">{queries}
<dt>rows of the worker<dd id="work-rows">{work_rows}
<dt>served by<dd id="served-by">{}
</dl>
</html>
"#,
        escape(instance),
        escape(served_by),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::Json;

    use super::*;

    fn an_answer() -> Answer {
        let text = str::to_owned;
        let (database, marker, instance) = (text("demo_alpha"), text("a<b> & \"c\""), text("7"));
        Answer { database, marker, instance, queries: 3, work_rows: 4, served_by: text("pod") }
    }

    async fn listen(router: Router) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    fn uri(address: SocketAddr) -> Uri {
        format!("http://{address}/").parse().unwrap()
    }

    #[tokio::test]
    async fn the_front_shows_and_forwards_what_the_api_answers() {
        let api =
            Router::new().route("/", get(async || Json(an_answer()))).route("/healthz", get(async || "ok\n"));
        let front = uri(listen(router("Hello, <alpha>".to_owned(), uri(listen(api).await))).await);
        let page = fetch(&front, "/").await.unwrap();
        assert!(page.contains("<h1>Hello, &lt;alpha&gt;</h1>"), "{page}");
        assert!(page.contains(r#"<dd id="marker">a&lt;b&gt; &amp; &quot;c&quot;"#), "{page}");
        let forwarded: Answer = serde_json::from_str(&fetch(&front, "/api").await.unwrap()).unwrap();
        assert_eq!(forwarded, an_answer());
        assert_eq!(fetch(&front, "/healthz").await.unwrap(), "ok\n");
    }

    #[tokio::test]
    async fn the_front_is_unhealthy_without_its_api_and_says_why() {
        let api =
            Router::new().route("/healthz", get(async || (StatusCode::SERVICE_UNAVAILABLE, "no database")));
        let front = uri(listen(router("Hello".to_owned(), uri(listen(api).await))).await);
        let error = fetch(&front, "/healthz").await.unwrap_err().to_string();
        assert!(error.contains("503") && error.contains("no database"), "{error}");
        assert!(fetch(&front, "/").await.is_err());
    }
}
