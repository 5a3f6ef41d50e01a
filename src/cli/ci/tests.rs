use super::{
    api::Lines,
    report::{facts, markdown},
    *,
};
use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use clap::Parser;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Answers in order, and keeps what was asked.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<Vec<(u16, Value)>>>,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    async fn start(answers: Vec<(u16, Value)>) -> (Self, String) {
        let server = Self::default();
        *server.answers.lock().unwrap() = answers;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = server.clone();
        let routes = Router::new().fallback(move |request: Request| serving.clone().answer(request));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (server, url)
    }

    async fn answer(self, request: Request) -> Response {
        let token = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        let asked = format!("{} {}", request.method(), request.uri());
        self.asked.lock().unwrap().push((asked, token.unwrap_or_default()));
        let mut answers = self.answers.lock().unwrap();
        if answers.is_empty() {
            return StatusCode::IM_A_TEAPOT.into_response();
        }
        let (code, body) = answers.remove(0);
        let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        (StatusCode::from_u16(code).unwrap(), text).into_response()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(asked, _)| asked.clone()).collect()
    }
}

fn environment(phase: &str) -> Value {
    json!({"name": "pr-1", "template": "demo", "values": {}, "env": {}, "ttl": "", "phase": phase,
        "url": "https://pr-1.example.com", "expiresAt": "2030-01-01T00:00:00Z", "components": [],
        "conditions": [{"type": "Ready", "status": "False", "reason": "DeployFailed", "message": "no chart",
            "lastTransitionTime": "2030-01-01T00:00:00Z"}]})
}

fn stream(phases: &[&str], reason: &str) -> Value {
    let mut text = String::from(": keep-alive\n\n");
    for phase in phases {
        text.push_str(&format!("event: environment\ndata: {}\n\n", environment(phase)));
    }
    text.push_str(&format!("event: end\ndata: {}\n\n", json!({ "reason": reason })));
    text.into()
}

fn error(code: &str) -> Value {
    json!({"error": {"code": code, "message": "said so"}})
}

async fn ci(url: &str, arguments: &[&str], env: &[(&str, &str)]) -> Result<(), CiError> {
    let all = ["kubectl-petri", "ci", "--server", url, "--timeout", "6s"]
        .into_iter()
        .chain(arguments.iter().copied());
    let crate::cli::Command::Ci(arguments) = crate::cli::Arguments::try_parse_from(all).unwrap().command
    else {
        panic!("not ci");
    };
    let env: BTreeMap<String, String> =
        env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    run_it(&arguments, &|name| env.get(name).cloned()).await
}

const TOKEN: [(&str, &str); 1] = [("PETRI_TOKEN", "t")];

async fn check(arguments: &[&str], answers: Vec<(u16, Value)>, code: u8, asked: &[&str]) {
    let (server, url) = Server::start(answers).await;
    let ended = ci(&url, arguments, &TOKEN).await;
    assert_eq!(ended.as_ref().map_or_else(CiError::code, |()| 0), code, "{arguments:?}: {ended:?}");
    assert_eq!(server.asked(), asked, "{arguments:?}");
}

const POST: &str = "POST /v1/environments";
const WATCH: &str = "GET /v1/environments/pr-1/watch";
const UP: [&str; 4] = ["up", "pr-1", "--template", "demo"];

#[tokio::test]
async fn up_ends_when_the_environment_is_ready_and_fails_when_it_failed() {
    let pending = || (201, environment("Pending"));
    check(&UP, vec![pending(), (200, stream(&["Pending", "Ready"], "ready"))], 0, &[POST, WATCH]).await;
    check(&UP, vec![pending(), (200, stream(&["Failed"], "failed"))], 1, &[POST, WATCH]).await;
    check(&UP, vec![pending(), (200, stream(&[], "gone"))], 1, &[POST, WATCH]).await;
    check(&["up", "pr-1", "--no-wait"], vec![pending()], 0, &[POST]).await;
    let again = vec![pending(), (200, stream(&["Pending"], "again")), (200, stream(&["Ready"], "ready"))];
    check(&UP, again, 0, &[POST, WATCH, WATCH]).await;
}

#[tokio::test]
async fn up_runs_a_failed_environment_again_and_waits_for_a_namesake_to_go() {
    let answers =
        vec![(200, environment("Failed")), (200, environment("Pending")), (200, stream(&["Ready"], "ready"))];
    check(&UP, answers, 0, &[POST, "POST /v1/environments/pr-1/retry", WATCH]).await;
    let answers =
        vec![(409, error("terminating")), (201, environment("Pending")), (200, stream(&["Ready"], "ready"))];
    check(&UP, answers, 0, &[POST, POST, WATCH]).await;
    check(&UP, vec![(409, error("name_taken"))], 3, &[POST]).await;
}

#[tokio::test]
async fn refusals_are_final_and_outages_pass() {
    for (code, word) in [(400, "invalid_request"), (401, "unauthenticated"), (403, "forbidden")] {
        check(&UP, vec![(code, error(word))], 3, &[POST]).await;
    }
    let passing = vec![(503, error("identity_provider_unavailable")), (201, environment("Pending"))];
    check(&["up", "pr-1", "--no-wait"], passing, 0, &[POST, POST]).await;
    check(&["wait", "pr-1"], vec![(404, error("not_found"))], 3, &[WATCH]).await;
    let ended = ci("http://127.0.0.1:1", &["wait", "pr-1"], &TOKEN).await.unwrap_err();
    assert_eq!(ended.code(), 5, "{ended}");
}

#[tokio::test]
async fn down_is_done_when_it_is_gone_and_when_it_never_was() {
    const DELETE: &str = "DELETE /v1/environments/pr-1";
    check(&["down", "pr-1"], vec![(204, "".into())], 0, &[DELETE]).await;
    check(&["down", "pr-1"], vec![(404, error("not_found"))], 0, &[DELETE]).await;
    let gone = vec![(204, "".into()), (200, stream(&["Terminating"], "gone"))];
    check(&["down", "pr-1", "--wait"], gone, 0, &[DELETE, WATCH]).await;
    let gone = vec![(204, "".into()), (404, error("not_found"))];
    check(&["down", "pr-1", "--wait"], gone, 0, &[DELETE, WATCH]).await;
}

#[tokio::test]
async fn the_token_comes_from_github_for_each_request_or_is_given() {
    let (provider, url) =
        Server::start(vec![(200, json!({"value": "one"})), (200, json!({"value": "two"}))]).await;
    let (server, api) =
        Server::start(vec![(201, environment("Pending")), (200, stream(&["Ready"], "ready"))]).await;
    let request = format!("{url}/token?api-version=2.0");
    let env =
        [("ACTIONS_ID_TOKEN_REQUEST_URL", request.as_str()), ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "secret")];
    ci(&api, &UP, &env).await.unwrap();
    let asked = provider.asked.lock().unwrap().clone();
    let expected = ("GET /token?api-version=2.0&audience=petri".to_owned(), "Bearer secret".to_owned());
    assert_eq!(asked, [expected.clone(), expected]);
    let used: Vec<String> = server.asked.lock().unwrap().iter().map(|(_, token)| token.clone()).collect();
    assert_eq!(used, ["Bearer one", "Bearer two"]);
    let ended = ci(&api, &UP, &[]).await.unwrap_err();
    assert_eq!(ended.code(), 2);
    assert!(ended.to_string().contains("id-token: write"), "{ended}");
}

#[tokio::test]
async fn a_token_is_not_sent_in_the_clear_to_another_host() {
    for (url, code) in
        [("http://petri.example", 2), ("", 2), ("petri.example", 2), ("ftp://petri.example", 2)]
    {
        assert_eq!(ci(url, &["wait", "a"], &TOKEN).await.unwrap_err().code(), code, "{url}");
    }
}

#[tokio::test]
async fn a_pipeline_gets_outputs_a_summary_and_a_comment() {
    let (_, url) = Server::start(vec![(200, stream(&["Ready"], "ready"))]).await;
    let folder = std::env::temp_dir().join(format!("petri-ci-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let (output, summary, comment) = (path("output"), path("summary"), path("comment"));
    let env = [TOKEN[0], ("GITHUB_OUTPUT", output.as_str()), ("GITHUB_STEP_SUMMARY", summary.as_str())];
    ci(&url, &["wait", "pr-1", "--comment-file", &comment], &env).await.unwrap();
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert!(read(&output).contains("\nurl=https://pr-1.example.com\n"), "{}", read(&output));
    assert!(read(&summary).contains("<https://pr-1.example.com>"));
    assert!(read(&comment).starts_with("<!-- petri-environment -->\n### Environment pr-1: Ready"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_an_environment_says_cannot_forge_an_output_or_markup() {
    let mut shown: Environment = serde_json::from_value(environment("Failed")).unwrap();
    shown.conditions[0].message = "a\nurl=https://evil.example | <script> @everyone".to_owned();
    shown.url = Some("javascript:alert(1)".to_owned());
    assert!(facts(&shown).iter().all(|(_, value)| !value.contains('\n')));
    let text = markdown(&shown);
    assert!(text.contains("\\| \\<script\\> \\@everyone") && !text.contains("javascript"), "{text}");
}

#[test]
fn events_are_read_out_of_any_pieces() {
    let text =
        b": hello\n\nevent: a\ndata: {\"x\":\ndata: 1}\n\nevent: b\r\ndata:2\r\n\r\nevent: c\ndata: 3\n";
    for size in 1..text.len() {
        let mut lines = Lines::default();
        let found: Vec<_> = text.chunks(size).flat_map(|chunk| lines.take(chunk)).collect();
        let expected = [("a".to_owned(), "{\"x\":1}".to_owned()), ("b".to_owned(), "2".to_owned())];
        assert_eq!(found, expected, "{size}");
    }
}
