use std::net::SocketAddr;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;

use super::config::{Config, ConfigError};
use super::*;

const TOKEN: &str = "token-that-nobody-may-see";

/// Serves one path, and counts how often anything is asked for.
async fn served(code: StatusCode, pause: Duration) -> (SocketAddr, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let counted = move || {
        let asked = Arc::clone(&count);
        async move {
            asked.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(pause).await;
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, "/elsewhere".parse().unwrap());
            (code, headers, "answer")
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(get(counted));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, asked)
}

async fn ask(plan: Plan, address: SocketAddr, stop: impl Future<Output = ()>) -> Report {
    let client = client(&format!("http://{address}"), TOKEN).unwrap();
    run(plan, stop, move |_| {
        let client = client.clone();
        async move { send(&client, Request::get("/v1/environments").body(Vec::new()).unwrap()).await }
    })
    .await
}

fn rate(rate: u32, clients: usize, secs: u64) -> Plan {
    Plan { clients, rate: Some(rate), time: Duration::from_secs(secs) }
}

#[tokio::test]
async fn scenario_236_the_numbers_of_a_report_add_up_and_it_names_neither_token_nor_target() {
    let (address, asked) = served(StatusCode::OK, Duration::ZERO).await;
    let report = ask(rate(50, 20, 1), address, std::future::pending()).await;
    assert_eq!(
        (report.planned, report.offered, report.not_offered, report.cut_off),
        (50, 50, 0, 0),
        "{report:?}"
    );
    assert_eq!(report.offered, report.started + report.dropped);
    assert_eq!((report.started, report.healthy), (asked.load(Ordering::SeqCst), report.codes[&200]));
    assert!(report.p50_ms <= report.p99_ms && report.p99_ms <= report.max_ms && report.max_ms > 0.0);
    let text = serde_json::to_string(&report).unwrap();
    assert!(
        !text.contains(TOKEN) && !text.contains("127.0.0.1") && !text.contains(&address.port().to_string())
    );
    let (address, asked) = served(StatusCode::OK, Duration::from_millis(5)).await;
    let plan = Plan { clients: 4, rate: None, time: Duration::from_millis(300) };
    let report = ask(plan, address, std::future::pending()).await;
    assert_eq!(
        (report.started, report.healthy, report.dropped),
        (asked.load(Ordering::SeqCst), report.started, 0)
    );
    assert!((8..=240).contains(&report.started), "each client asks again when it is answered: {report:?}");
}

#[test]
fn scenario_236_a_wrong_configuration_is_refused_and_nothing_of_it_is_told() {
    let good = [("URL", "http://127.0.0.1:1/hidden-path"), ("TOKEN", TOKEN)];
    let read = |changes: &[(&str, &str)]| {
        let all = good.iter().chain(changes).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        // Later ones win.
        Config::read(all)
    };
    let config = read(&[]).unwrap();
    assert_eq!((config.plan.clients, config.plan.rate, config.plan.time.as_secs()), (10, None, 10));
    assert_eq!(read(&[("RATE", "7")]).unwrap().plan.rate, Some(7));
    let long = read(&[("URL", "https://host:7/a/b?c=d")]).unwrap();
    assert_eq!((long.server.as_str(), long.path.as_str()), ("https://host:7", "/a/b?c=d"));
    let debug = format!("{config:?}");
    assert!(!debug.contains(TOKEN) && !debug.contains("hidden-path"), "{debug}");
    for (name, value) in [
        ("URL", ""),
        ("URL", "ftp://hidden-value"),
        ("URL", "hidden-value"),
        ("URL", "http://"),
        ("URL", "http://user:hidden-value@host/"),
        ("URL", "http://host/#hidden-value"),
        ("TOKEN", ""),
        ("TOKEN", "hidden-value with spaces"),
        ("TOKEN", "hidden-value\n"),
        ("CLIENTS", "0"),
        ("CLIENTS", "-1"),
        ("CLIENTS", "10001"),
        ("CLIENTS", "hidden-value"),
        ("RATE", "0"),
        ("RATE", "1.5"),
        ("RATE", "+1"),
        ("SECS", "0"),
        ("SECS", "3601"),
        ("SECS", ""),
        ("TIME", "hidden-value"),
    ] {
        let ConfigError(wrong) = read(&[(name, value)]).expect_err(name);
        assert_eq!((wrong.len(), wrong[0].0.as_str()), (1, name), "{name}={value}");
        let text = ConfigError(wrong).to_string();
        assert!(text.starts_with(&format!("PETRI_LOAD_{name}: ")), "{text}");
        assert!(!text.contains("hidden") && !text.contains(TOKEN), "{text}");
    }
}

#[tokio::test]
async fn scenario_237_only_200_is_healthy_and_a_redirect_is_not_followed() {
    for (code, healthy, refused, failed) in [
        (StatusCode::OK, true, false, false),
        (StatusCode::UNAUTHORIZED, false, true, false),
        (StatusCode::FORBIDDEN, false, true, false),
        (StatusCode::TOO_MANY_REQUESTS, false, true, false),
        (StatusCode::INTERNAL_SERVER_ERROR, false, false, true),
        (StatusCode::FOUND, false, false, false),
    ] {
        let (address, asked) = served(code, Duration::ZERO).await;
        let report = ask(rate(10, 10, 1), address, std::future::pending()).await;
        let all = |one: bool| if one { 10 } else { 0 };
        assert_eq!(
            (report.healthy, report.refused, report.failed),
            (all(healthy), all(refused), all(failed)),
            "{code}: {report:?}"
        );
        assert_eq!(
            (report.codes[&code.as_u16()], asked.load(Ordering::SeqCst)),
            (10, 10),
            "{code}: asked once each"
        );
    }
    let nobody = "127.0.0.1:1".parse().unwrap();
    let report = ask(rate(10, 10, 1), nobody, std::future::pending()).await;
    assert_eq!((report.failed, report.codes.len()), (10, 0), "{report:?}");
}

#[tokio::test]
async fn scenario_238_a_saturated_load_that_is_stopped_ends_at_once_and_its_numbers_add_up() {
    let (address, asked) = served(StatusCode::OK, Duration::from_secs(60)).await;
    let begun = Instant::now();
    let report = ask(rate(100, 5, 60), address, tokio::time::sleep(Duration::from_millis(500))).await;
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    assert_eq!(report.offered, report.started + report.dropped, "{report:?}");
    assert_eq!((report.started, report.cut_off, asked.load(Ordering::SeqCst)), (5, 5, 5), "{report:?}");
    assert!(report.dropped > 0 && report.not_offered > 5000, "{report:?}");
    assert_eq!(report.planned, report.offered + report.not_offered);
}
