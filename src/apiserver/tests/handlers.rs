//! What the routes do.

use super::*;

#[tokio::test]
async fn scenario_216_an_environment_is_created_changed_and_deleted() {
    let api = Api::new();
    let body = json!({"name": "pr-1", "template": "demo", "ttl": "2h", "values": {"a": "1", "b": "2"},
        "env": {"A": "x", "B": {"value": "y"}, "C": {"secretKeyRef": {"component": "db", "key": "url"}}},
        "source": {"repo": "acme/app", "branch": "main", "sha": "1"}});
    let created = api.post(body).await;
    assert_eq!(created.code, 201, "{created:?}");
    let expected = json!({"name": "pr-1", "template": "demo", "ttl": "2h", "values": {"a": "1", "b": "2"},
        "env": {"A": "x", "B": "y"}, "source": {"repo": "acme/app", "branch": "main", "sha": "1"},
        "phase": "Pending", "conditions": [], "components": []});
    assert_eq!(created.json(), expected, "only public fields, and no reference to a Secret");
    let stored = api.fake.get("pr-1").unwrap();
    assert_eq!(stored["metadata"]["labels"]["petri.run/owner"], owner(acme()));
    assert_eq!(stored["metadata"]["annotations"]["petri.run/repository"], "acme/app");
    assert_eq!(stored["spec"]["env"]["C"]["secretKeyRef"]["key"], "url");

    let again = api.post(json!({"name": "pr-1", "source": {"sha": "2"}})).await;
    assert_eq!(
        (again.code, again.json()["source"].clone()),
        (200, json!({"repo": "acme/app", "branch": "main", "sha": "2"}))
    );
    assert_eq!(
        (again.json()["values"].clone(), again.json()["ttl"].clone()),
        (json!({"a": "1", "b": "2"}), json!("2h"))
    );
    let spec = api.fake.get("pr-1").unwrap()["spec"].clone();
    assert_eq!(spec["env"]["C"]["secretKeyRef"]["component"], "db", "what is not shown is kept");

    let replaced = api.post(json!({"name": "pr-1", "values": {"c": "3"}})).await;
    assert_eq!(replaced.json()["values"], json!({"c": "3"}), "a map replaces");
    let cleared = api.post(json!({"name": "pr-1", "values": {}, "env": {}, "ttl": ""})).await;
    assert_eq!(
        (cleared.code, cleared.json()["values"].clone(), cleared.json()["ttl"].clone()),
        (200, json!({}), json!(""))
    );
    assert!(api.fake.get("pr-1").unwrap()["spec"].get("env").is_none());

    let before = api.fake.get("pr-1").unwrap();
    assert_eq!(api.post(json!({"name": "pr-1", "template": "demo", "values": {}})).await.code, 200);
    assert_eq!(api.fake.get("pr-1").unwrap(), before, "what is as wanted is not written");

    assert_eq!(api.get("/v1/environments/pr-1?namespace=default").await.code, 400);
    assert_eq!(api.delete("/v1/environments/pr-1").await.code, 204);
    assert_eq!(api.delete("/v1/environments/pr-1").await.code, 404);
    assert_eq!(api.get("/v1/environments/pr-1").await.code, 404);
}

#[tokio::test]
async fn api_08_a_deletion_may_be_asked_for_again_while_it_goes_on() {
    let api = Api::new();
    api.post(json!({"name": "pr-1", "template": "demo"})).await;
    api.fake.edit("pr-1", |object| object["metadata"]["finalizers"] = json!(["petri.run/cleanup"]));
    for _ in 0..2 {
        assert_eq!(api.delete("/v1/environments/pr-1").await.code, 204);
        assert_eq!(api.get("/v1/environments/pr-1").await.json()["phase"], "Terminating");
    }
    let answer = api.post(json!({"name": "pr-1", "template": "demo"})).await;
    assert_eq!((answer.code, answer.error().as_str()), (409, "terminating"));
    assert_eq!(api.delete("/v1/environments/unknown").await.code, 404);
}

#[tokio::test]
async fn scenario_220_api_07_of_two_who_create_one_name_one_is_told_of_a_conflict() {
    let api = Api::new();
    api.fake.state().pause = Duration::from_millis(5);
    let one = |sha: &str| json!({"name": "pr-1", "template": "demo", "source": {"sha": sha}});
    let (first, second) = tokio::join!(api.post(one("1")), api.post(one("2")));
    let mut codes = [first.code, second.code];
    codes.sort_unstable();
    assert_eq!(codes, [201, 409]);
    let (first, second) = tokio::join!(api.post(one("3")), api.post(one("4")));
    let mut codes = [first.code, second.code];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409]);
    let loser = if first.code == 409 { first } else { second };
    assert_eq!(loser.error(), "conflict");
    let all = futures::future::join_all((0..20).map(|number| {
        api.post(json!({"name": "pr-20", "template": "demo", "values": {"n": number.to_string()}}))
    }));
    let codes: Vec<u16> = all.await.iter().map(|answer| answer.code).collect();
    assert!(codes.iter().all(|code| [200, 201, 409].contains(code)), "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 1, "{codes:?}");
}

#[tokio::test]
async fn a_status_that_the_operator_writes_meanwhile_is_no_conflict() {
    let api = Api::new();
    api.post(json!({"name": "pr-1", "template": "demo"})).await;
    api.fake.state().meddle =
        Some(|object| object["status"]["deployStartedAt"] = "2026-01-01T00:00:00Z".into());
    // The fake meddles at every write, so this never succeeds, and is not tried for ever.
    let answer = api.post(json!({"name": "pr-1", "ttl": "3h"})).await;
    assert_eq!(answer.code, 409);
    assert_eq!(api.fake.calls().iter().filter(|call| call.starts_with("PUT")).count(), 8);
    api.fake.state().meddle = None;
    api.fake.state().faults.push_back(("PUT".to_owned(), 409, "Conflict"));
    assert_eq!(api.post(json!({"name": "pr-1", "ttl": "3h"})).await.code, 200);
    api.fake.state().meddle = Some(|object| {
        object["spec"]["ttl"] = "9h".into();
        object["metadata"]["generation"] = 9.into();
    });
    let answer = api.post(json!({"name": "pr-1", "ttl": "4h"})).await;
    assert_eq!((answer.code, api.fake.get("pr-1").unwrap()["spec"]["ttl"].clone()), (409, json!("9h")));
}

#[tokio::test]
async fn scenario_221_what_kubernetes_says_becomes_a_code_and_stays_private() {
    for (code, reason, expected) in [
        (404, "NotFound", 404),
        (409, "Conflict", 409),
        (400, "BadRequest", 400),
        (422, "Invalid", 400),
        (410, "Expired", 400),
        (403, "Forbidden", 500),
        (503, "ServiceUnavailable", 500),
        (418, "Odd", 500),
    ] {
        for (method, path) in [
            ("GET", "/v1/environments/pr-1"),
            ("DELETE", "/v1/environments/pr-1"),
            ("GET", "/v1/environments"),
        ] {
            let api = Api::new();
            api.fake.state().faults.push_back(("GET".to_owned(), code, reason));
            let answer = api.ask(json!({}), method, path, Body::empty()).await;
            assert_eq!(answer.code, expected, "{method} {path} {reason}: {answer:?}");
            assert!(!answer.text.contains("PRIVATE"), "{answer:?}");
            assert!(!answer.error().is_empty());
        }
    }
}

#[tokio::test]
async fn scenario_222_api_05_other_repositories_and_other_places_do_not_exist() {
    let api = Api::new();
    api.ask(other(), "POST", "/v1/environments", json!({"name": "theirs", "template": "demo"}).to_string())
        .await;
    api.fake.put(json!({"metadata": {"name": "by-hand"}, "spec": {"template": "demo"}}));
    api.post(json!({"name": "mine", "template": "demo"})).await;
    for name in ["theirs", "by-hand"] {
        let path = format!("/v1/environments/{name}");
        let before = api.fake.get(name);
        assert_eq!(api.get(&path).await.text, api.get("/v1/environments/absent").await.text, "{name}");
        for below in ["events", "watch"] {
            assert_eq!(api.get(&format!("{path}/{below}")).await.code, 404);
        }
        assert_eq!(api.delete(&path).await.code, 404);
        for (below, body) in [("retry", ""), ("extend", r#"{"expiresAt":"2099-01-01T00:00:00Z"}"#)] {
            let answer = api.ask(json!({}), "POST", &format!("{path}/{below}"), body).await;
            assert_eq!(answer.code, 404, "{below}");
        }
        let taken = api.post(json!({"name": name, "template": "demo"})).await;
        assert_eq!((taken.code, taken.error().as_str()), (409, "name_taken"));
        assert_eq!(api.fake.get(name), before, "nothing was written");
    }
    let names = |answer: &Answer| {
        let items = answer.json()["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&api.get("/v1/environments").await), ["mine"]);
    let all = api.ask(admin(), "GET", "/v1/environments", Body::empty()).await;
    assert_eq!(names(&all), ["by-hand", "mine", "theirs"]);
    assert_eq!(api.ask(admin(), "GET", "/v1/environments/theirs", Body::empty()).await.code, 200);
    let stranger = json!({"groups": ["ops"], "repository_owner": "evil", "repository": "evil/x"});
    assert_eq!(api.ask(stranger, "GET", "/v1/environments", Body::empty()).await.code, 403);
}

#[tokio::test]
async fn scenario_224_pages_follow_each_other_without_repeats() {
    let api = Api::new();
    for number in 0..5 {
        api.post(json!({"name": format!("pr-{number}"), "template": "demo"})).await;
    }
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let query = if after.is_empty() { String::new() } else { format!("&continue={after}") };
        let page = api.get(&format!("/v1/environments?limit=2{query}")).await.json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        seen.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        after = page["continue"].as_str().unwrap().to_owned();
        if after.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["pr-0", "pr-1", "pr-2", "pr-3", "pr-4"]);
    let calls = api.fake.calls().len();
    for bad in ["limit=+1", "limit=0", "continue=", "a=b", "limit=1;continue=a", "limit=1&limit=2"] {
        assert_eq!(api.get(&format!("/v1/environments?{bad}")).await.code, 400, "{bad}");
    }
    assert_eq!(api.fake.calls().len(), calls, "a bad query never reaches Kubernetes");
}

#[tokio::test]
async fn scenario_225_a_template_is_its_name_and_whether_it_is_in_order() {
    let api = Api::new();
    let accepted = json!([{"type": "Accepted", "status": "True", "reason": "Valid", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let template = |name: &str, conditions: Value| {
        json!({"apiVersion": "core.petri.run/v1alpha1",
        "kind": "EnvironmentTemplate", "metadata": {"name": name}, "status": {"conditions": conditions},
        "spec": {"components": [{"name": "web", "helm": {"path": "/charts/web", "values": {"password": "hidden"}}}]}})
    };
    api.fake.state().templates = vec![template("demo", accepted), template("broken", json!([]))];
    let list = api.get("/v1/templates").await.json();
    let items = json!([{"name": "demo", "accepted": true}, {"name": "broken", "accepted": false}]);
    assert_eq!(list, json!({"items": items, "continue": ""}), "exactly these fields");
    for path in ["/v1/templates/", "/v1/templates/demo", "/v1/template"] {
        assert_eq!(api.get(path).await.code, 404, "{path}");
    }
    assert_eq!(api.ask(json!({}), "POST", "/v1/templates", "{}").await.code, 405);
    assert_eq!(api.get("/v1/templates?limit=0").await.code, 400);
}

#[tokio::test]
async fn a_stale_phase_is_not_shown() {
    let api = Api::new();
    api.post(json!({"name": "pr-1", "template": "demo"})).await;
    api.settle("pr-1", "Ready");
    let shown = api.get("/v1/environments/pr-1").await.json();
    assert_eq!(
        (shown["phase"].clone(), shown["namespace"].clone()),
        (json!("Ready"), json!("petri-env-0a1b2c3d"))
    );
    assert_eq!(shown["expiresAt"], "2099-01-01T00:00:00Z");
    let changed = api.post(json!({"name": "pr-1", "values": {"a": "1"}})).await.json();
    assert_eq!(changed["phase"], "Pending", "Ready was said of what was there before");
}

#[tokio::test]
async fn an_environment_is_extended_within_bounds_and_run_again() {
    let api = Api::new();
    api.post(json!({"name": "pr-1", "template": "demo", "ttl": "1h"})).await;
    let extend = async |at: &str| {
        api.ask(json!({}), "POST", "/v1/environments/pr-1/extend", json!({"expiresAt": at}).to_string()).await
    };
    let soon = jiff::Timestamp::now().checked_add(Duration::from_secs(86_400)).unwrap();
    let soon = jiff::Timestamp::from_second(soon.as_second()).unwrap();
    assert_eq!(extend(&soon.to_string()).await.error(), "does_not_expire", "not known yet");
    api.settle("pr-1", "Ready");
    let plan = |at: &str| api.fake.edit("pr-1", |object| object["status"]["expiresAt"] = at.into());
    plan("2026-01-01T01:00:00Z");
    for bad in [
        "2026-01-01T01:00:00Z",
        "2026-01-01T00:59:59Z",
        "2098-01-01T00:00:00Z",
        "soon",
        "",
        "2026-13-01T00:00:00Z",
    ] {
        assert_eq!(extend(bad).await.code, 400, "{bad}");
    }
    let answer = extend(&soon.to_string()).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    let created: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let ttl = format!("{}s", soon.as_second() - created.as_second());
    assert_eq!(answer.json()["ttl"], ttl.as_str());

    let retried = api.ask(json!({}), "POST", "/v1/environments/pr-1/retry", "").await;
    assert_eq!(retried.code, 200, "{retried:?}");
    let token = api.fake.get("pr-1").unwrap()["metadata"]["annotations"]["petri.run/retry"].clone();
    assert_eq!(token.as_str().map(str::len), Some(32));
    api.fake.edit("pr-1", |object| {
        object["status"]["observedGeneration"] = object["metadata"]["generation"].clone();
    });
    assert_eq!(api.get("/v1/environments/pr-1").await.json()["phase"], "Pending", "not taken up yet");
    api.settle("pr-1", "Failed");
    assert_eq!(api.get("/v1/environments/pr-1").await.json()["phase"], "Failed");
}

#[tokio::test]
async fn events_are_told_oldest_first_and_only_those_of_the_environment() {
    let api = Api::new();
    api.post(json!({"name": "pr-1", "template": "demo"})).await;
    let uid = api.fake.get("pr-1").unwrap()["metadata"]["uid"].clone();
    let event = |uid: &Value, reason: &str, at: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {},
        "involvedObject": {"uid": uid}, "type": "Normal", "reason": reason, "message": "m", "eventTime": at})
    };
    api.fake.state().events = vec![
        event(&uid, "Ready", "2026-01-01T00:00:02.000000Z"),
        event(&"uid-x".into(), "Foreign", "2026-01-01T00:00:00.000000Z"),
        event(&uid, "Deploying", "2026-01-01T00:00:01.000000Z"),
    ];
    let list = api.get("/v1/environments/pr-1/events").await.json();
    let found: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| item["reason"].clone()).collect();
    assert_eq!(found, ["Deploying", "Ready"]);
    assert_eq!(list["items"][0]["lastSeen"], "2026-01-01T00:00:01Z");
}

/// The events of a watch, as name and data.
fn said(answer: &Answer) -> Vec<(String, Value)> {
    let field = |block: &str, name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|rest| rest.trim_start_matches([':', ' ']).to_owned())
    };
    let event =
        |block: &str| Some((field(block, "event")?, serde_json::from_str(&field(block, "data")?).unwrap()));
    answer.text.split("\n\n").filter_map(event).collect()
}

#[tokio::test]
async fn a_watch_goes_on_until_the_environment_is_ready_failed_or_gone() {
    for (phase, reason) in [("Ready", "ready"), ("Failed", "failed"), ("gone", "gone"), ("stop", "again")] {
        let api = Api::new();
        api.post(json!({"name": "pr-1", "template": "demo"})).await;
        let later = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            api.settle("pr-1", "Deploying");
            tokio::time::sleep(Duration::from_millis(200)).await;
            match phase {
                "gone" => drop(api.fake.state().objects.remove("pr-1")),
                "stop" => drop(api.stop.send_replace(true)),
                phase => api.settle("pr-1", phase),
            }
        };
        let watching = tokio::time::timeout(Duration::from_secs(10), api.get("/v1/environments/pr-1/watch"));
        let (answer, ()) = tokio::join!(watching, later);
        let answer = answer.expect(phase);
        assert_eq!(answer.headers["content-type"], "text/event-stream");
        let events = said(&answer);
        assert_eq!(events.last().unwrap(), &("end".to_owned(), json!({"reason": reason})), "{answer:?}");
        assert_eq!(events[0].1["phase"], "Pending");
        assert!(events.iter().any(|(_, data)| data["phase"] == "Deploying"), "{phase}: {answer:?}");
    }
}

#[tokio::test]
async fn a_watch_of_what_is_settled_ends_at_once() {
    let api = Api::new();
    api.post(json!({"name": "pr-1", "template": "demo"})).await;
    api.settle("pr-1", "Ready");
    let events = said(&api.get("/v1/environments/pr-1/watch").await);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[1].1["reason"], "ready");
}

#[tokio::test]
async fn the_trace_of_a_request_is_the_parent_of_the_rollout_that_it_causes() {
    let api = Api::new();
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let post = async |body: &str, parent: &str| {
        let request = Request::post("/v1/environments").header("traceparent", parent);
        let request = request.header("authorization", format!("Bearer {}", api.token(json!({}))));
        let answer = api.send(request.body(Body::from(body.to_owned())).unwrap()).await;
        let held = api.fake.get("a").unwrap()["metadata"]["annotations"]["petri.run/traceparent"].clone();
        (answer.code, held)
    };
    let body = r#"{"name":"a","template":"b"}"#;
    assert_eq!(post(body, good).await, (201, json!(good)));
    let other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01";
    assert_eq!(post(body, other).await, (200, json!(good)), "nothing is rolled out");
    let zeros = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
    for bad in [
        "",
        "x",
        "00-1-2-3",
        &good.to_uppercase(),
        &zeros,
        &format!("{good}-x"),
        &good.replacen("00", "ff", 1),
    ] {
        assert_eq!(post(r#"{"name":"a","ttl":"1h"}"#, bad).await, (200, Value::Null), "{bad}");
        assert_eq!(post(r#"{"name":"a","ttl":""}"#, good).await, (200, json!(good)));
    }
    assert_eq!(post(r#"{"name":"a","ttl":"1h"}"#, other).await, (200, json!(other)));
}
