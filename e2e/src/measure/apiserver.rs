//! petri-apiserver under load, beside the cluster's own API server: the same objects, asked by the same client, one
//! right after the other.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use serde_json::json;
use tokio::net::TcpListener;

use super::figures::{note, say};
use super::process::Process;
use super::{names, scale};
use crate::gateway::Gateway;
use crate::issuer::{Issuer, Tls};
use crate::lab::Progress;
use crate::load::{self, Plan, Report};
use crate::petri::{Error, MANAGEMENT, Petri};

const AUDIENCE: &str = "petri";
const KIND: &str = "/apis/core.petri.run/v1alpha1/namespaces/petri-system/ephemeralenvironments";
/// Environments for each client: two writes at once are never of the same one.
const EACH: usize = 2;
/// Entries of a page.
const PAGE: usize = 50;
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(100);
/// What may be held after bad requests that was not held after as many before.
const GROWTH_MAX_KIB: u64 = 8 << 10;

/// Asks for one environment, for a page of them, and for changes, by `clients` at once.
pub async fn run(petri: &Petri<'_>, clients: usize, secs: u64) -> Result<(), Error> {
    note(format!(
        "{clients} clients at once, {secs} s of each; both servers and the clients share the machine"
    ));
    note("petri: OIDC tokens, no TLS; kubernetes: a client certificate over TLS, as petri itself asks it");
    note("a write is read and replace for petri, one merge patch for kubernetes; no operator runs meanwhile");
    scale(petri, 0).await?;
    let done = measured(petri, clients, secs).await;
    scale(petri, 1).await?;
    let all = ["delete", "eenv", "--all", "-n", MANAGEMENT, "--timeout=300s"];
    petri.lab.kubectl(&all).await?;
    done
}

async fn measured(petri: &Petri<'_>, clients: usize, secs: u64) -> Result<(), Error> {
    let (issuer, authority) = issuer().await?;
    let path = authority.display().to_string();
    let variables = [
        ("OIDC_ISSUER", issuer.url.as_str()),
        ("OIDC_AUDIENCE", AUDIENCE),
        ("OIDC_CA_FILE", path.as_str()),
        ("ORGANIZATION_CLAIM", "repository_owner"),
        ("REPOSITORY_CLAIM", "repository"),
        ("ALLOWED_ORGANIZATIONS", "acme"),
        ("LOG_LEVEL", "info"),
    ];
    let gateway = Gateway::start(petri.lab, &Progress::new(), &variables).await;
    let _ = std::fs::remove_file(&authority);
    let gateway = gateway?;
    let (own, kubernetes) = (Process::numbered(gateway.id()?), Process::kube_apiserver(petri.lab)?);
    say("apiserver_rss_anon_idle_kib", own.memory()?.anonymous);
    say("apiserver_rss_idle_kib", own.memory()?.resident);
    let all = names("load-", clients * EACH);
    fill(&gateway, &issuer, &all).await?;
    let owner = petri.environments().get(&all[0]).await?.metadata.labels.unwrap_or_default();
    let owner = owner.get("petri.run/owner").cloned().unwrap_or_default();
    let plan = Plan { clients, rate: None, time: Duration::from_secs(secs) };
    for kind in [Kind::Get, Kind::List, Kind::Write] {
        let (client, names) = (load::client(&gateway.url(), &issuer.token(AUDIENCE))?, all.clone());
        let ask = move |number| (client.clone(), kind.of_petri(&names[at(number, names.len())], number));
        tell(&format!("apiserver_{}", kind.name()), &under(plan, &own, ask).await?)?;
        let (client, names, owner) = (petri.lab.client(), all.clone(), owner.clone());
        let ask = move |number| {
            (client.clone(), kind.of_kubernetes(&names[at(number, names.len())], number, &owner))
        };
        tell(&format!("kubernetes_{}", kind.name()), &under(plan, &kubernetes, ask).await?)?;
    }
    bad(&gateway, &issuer, &own, plan).await
}

fn at(number: u64, count: usize) -> usize {
    usize::try_from(number).unwrap_or(0) % count
}

async fn issuer() -> Result<(Issuer, std::path::PathBuf), Error> {
    let file = |source| Error::File { path: "loopback".into(), source };
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(file)?;
    let port = listener.local_addr().map_err(file)?.port();
    let (issuer, tls) = (Issuer::new(&format!("https://localhost:{port}")), Tls::for_names(&["localhost"]));
    issuer.set_claims(json!({"sub": "load", "repository": "acme/app", "repository_owner": "acme"}));
    let path = std::env::temp_dir().join(format!("petri-measure-{}.pem", std::process::id()));
    std::fs::write(&path, &tls.certificate).map_err(|source| Error::File { path: path.clone(), source })?;
    let serving = issuer.clone();
    tokio::spawn(async move { serving.serve(listener, &tls).await });
    Ok((issuer, path))
}

/// Creates the environments, through petri.
async fn fill(gateway: &Gateway, issuer: &Issuer, all: &[String]) -> Result<(), Error> {
    let client = load::client(&gateway.url(), &issuer.token(AUDIENCE))?;
    let one = |name: String| {
        let client = client.clone();
        async move {
            let body = json!({"name": name, "template": "none", "ttl": "1h"}).to_string();
            let request = request("POST", "/v1/environments", body, "application/json");
            match load::send(&client, request).await {
                Some(201) => Ok(()),
                other => Err(Error::Wrong(format!("{name} was not created: {other:?}"))),
            }
        }
    };
    stream::iter(all.to_vec()).map(one).buffer_unordered(20).try_collect().await
}

fn request(method: &str, path: &str, body: String, kind: &str) -> Request<Vec<u8>> {
    let made =
        Request::builder().method(method).uri(path).header("content-type", kind).body(body.into_bytes());
    // Method and path are fixed texts and names of environments.
    made.unwrap_or_default()
}

#[derive(Clone, Copy)]
enum Kind {
    Get,
    List,
    Write,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list_50",
            Self::Write => "write",
        }
    }

    fn of_petri(self, name: &str, number: u64) -> Request<Vec<u8>> {
        match self {
            Self::Get => {
                request("GET", &format!("/v1/environments/{name}"), String::new(), "application/json")
            }
            Self::List => {
                request("GET", &format!("/v1/environments?limit={PAGE}"), String::new(), "application/json")
            }
            Self::Write => {
                let body = json!({"name": name, "ttl": format!("{}s", 4000 + number % 90_000)}).to_string();
                request("POST", "/v1/environments", body, "application/json")
            }
        }
    }

    fn of_kubernetes(self, name: &str, number: u64, owner: &str) -> Request<Vec<u8>> {
        match self {
            Self::Get => request("GET", &format!("{KIND}/{name}"), String::new(), "application/json"),
            Self::List => {
                let only = format!("limit={PAGE}&labelSelector=petri.run%2Fowner%3D{owner}");
                request("GET", &format!("{KIND}?{only}"), String::new(), "application/json")
            }
            Self::Write => {
                let body = json!({"spec": {"ttl": format!("{}s", 4000 + number % 90_000)}}).to_string();
                request("PATCH", &format!("{KIND}/{name}"), body, "application/merge-patch+json")
            }
        }
    }
}

/// Runs a load and looks at the memory of who serves it.
async fn under(
    plan: Plan,
    server: &Process,
    ask: impl Fn(u64) -> (kube::Client, Request<Vec<u8>>) + Send + Sync + 'static,
) -> Result<(Report, u64), Error> {
    let ask = Arc::new(ask);
    let mut loading = std::pin::pin!(load::run(plan, std::future::pending(), move |number| {
        let (client, request) = ask(number);
        async move { load::send(&client, request).await }
    }));
    let mut most = 0;
    loop {
        tokio::select! {
            report = &mut loading => return Ok((report, most)),
            () = tokio::time::sleep(LOOK) => most = most.max(server.memory()?.anonymous),
        }
    }
}

fn tell(name: &str, (report, memory): &(Report, u64)) -> Result<(), Error> {
    if report.healthy != report.started {
        return Err(Error::Wrong(format!("{name}: not everything was served: {report:?}")));
    }
    say(format!("{name}_per_s"), format!("{:.0}", report.per_second));
    say(format!("{name}_p50_ms"), format!("{:.1}", report.p50_ms));
    say(format!("{name}_p99_ms"), format!("{:.1}", report.p99_ms));
    say(format!("{name}_rss_anon_kib"), memory);
    Ok(())
}

/// Requests that must be refused: twice as many hold no more memory than once.
async fn bad(gateway: &Gateway, issuer: &Issuer, own: &Process, plan: Plan) -> Result<(), Error> {
    let mut held = [0; 2];
    for held in &mut held {
        let stranger = load::client(&gateway.url(), &format!("{0}.{0}.{0}", "e30".repeat(1_000)))?;
        let friend = load::client(&gateway.url(), &issuer.token(AUDIENCE))?;
        let deep = format!("{{\"name\":\"a\",\"values\":{}", "{\"a\":".repeat(20_000));
        let ask = move |number: u64| match number % 5 {
            0 => (friend.clone(), request("POST", "/v1/environments", deep.clone(), "application/json")),
            1 => {
                (friend.clone(), request("GET", "/v1/environments/a%2fb", String::new(), "application/json"))
            }
            2 => (friend.clone(), request("ODD", "/v1/nowhere", String::new(), "text/plain")),
            3 => (friend.clone(), request("GET", "/v1/environments?limit=x", String::new(), "text/plain")),
            _ => (stranger.clone(), request("GET", "/v1/environments", String::new(), "application/json")),
        };
        let (report, _) = under(plan, own, ask).await?;
        if report.refused != report.started {
            return Err(Error::Wrong(format!("a bad request was not refused: {report:?}")));
        }
        say("apiserver_refused_per_s", format!("{:.0}", report.per_second));
        *held = own.memory()?.anonymous;
    }
    let growth = held[1].saturating_sub(held[0]);
    say("apiserver_rss_anon_after_bad_requests_kib", held[1]);
    say("apiserver_rss_anon_growth_by_bad_requests_kib", growth);
    if growth > GROWTH_MAX_KIB {
        return Err(Error::Wrong(format!("bad requests leave {growth} KiB behind")));
    }
    Ok(())
}
