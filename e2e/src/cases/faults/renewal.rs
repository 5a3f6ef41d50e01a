//! Credentials change under way: the operator's token is replaced before it ends, and once too late; the API server gets
//! another certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::BoundObjectReference;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::outside::{Outside, api_server, kubeconfig, program, scale, secret, token};
use super::{PATIENCE, create, ends, template};
use crate::cases::bad_input::cleaned;
use crate::cases::invariants::Invariants;
use crate::petri::{Error, MANAGEMENT, Petri};

/// A client reads its token's file anew at least this often.
const READ_AGAIN: Duration = Duration::from_secs(65);
/// How long the API server may go on believing a token whose Secret is gone.
const BELIEVED_MAX: Duration = Duration::from_secs(60);
/// How long there is no token that counts.
const WITHOUT: Duration = Duration::from_secs(20);
/// The API server looks at its certificate's file once a minute, if nobody tells it of a change.
const SERVED_MAX: Duration = Duration::from_secs(90);
const TOKEN: &str = "renewal.token";

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let program = program(petri).await?;
    template(petri, "one", &[("db", &[])]).await?;
    scale(petri, 0).await?;
    let seen = renewed(petri, &program).await;
    scale(petri, 1).await?;
    let seen = seen?;
    cleaned(petri).await?;
    Ok(seen)
}

async fn renewed(petri: &Petri<'_>, program: &Path) -> Result<String, Error> {
    let laws = Invariants::start(petri)?;
    let server = api_server(petri)?;
    let mut holder = Holder::new(petri, &server).await?;
    let config = kubeconfig(petri, "renewal", &server, &json!({"tokenFile": holder.file}))?;
    let operator = Outside::start(program, &config, &[])?;
    let lived = lives(petri, &mut holder, &operator).await.map_err(|error| operator.explain(&error))?;
    holder.end(petri).await?;
    let judged = laws.judge().await?;
    let _ = std::fs::remove_file(config);
    Ok(format!("{lived}; {judged}"))
}

async fn lives(petri: &Petri<'_>, holder: &mut Holder, operator: &Outside) -> Result<String, Error> {
    lives_one(petri, "before").await?;
    holder.renew(petri).await?;
    tokio::time::sleep(READ_AGAIN).await;
    holder.forget_old(petri).await?;
    lives_one(petri, "renewed").await?;
    let starts = operator.starts();
    if starts != 1 {
        return Err(Error::Wrong(format!(
            "a token renewed in time cost {} starts of the operator",
            starts - 1
        )));
    }

    // Nobody renewed it in time: what was asked for meanwhile is done when the new one is there.
    create(petri, "meanwhile", "one").await?;
    let old = holder.current.clone();
    holder.drop_secret(petri, &old).await?;
    holder.refused(&old).await?;
    tokio::time::sleep(WITHOUT).await;
    holder.renew(petri).await?;
    let (given, late) = (Instant::now(), operator.starts() - starts);
    petri.until_ready("meanwhile", PATIENCE).await?;
    let healed = given.elapsed().as_secs();
    ends(petri, "meanwhile").await?;

    let before = certificate(petri).await?;
    petri.lab.renew_certificate()?;
    let started = Instant::now();
    while certificate(petri).await? == before {
        if started.elapsed() > SERVED_MAX {
            return Err(Error::Wrong("the API server does not serve its new certificate".to_owned()));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // Connections outlive a certificate: now all must be made anew.
    petri.lab.stop_component("kube-apiserver").await?;
    petri.lab.start_component("kube-apiserver").await?;
    lives_one(petri, "another-certificate").await?;
    Ok(format!(
        "a token renewed in time cost nothing; one renewed {} s late cost {late} start(s), and Ready came {healed} s \
         after it; a new certificate was served and taken",
        WITHOUT.as_secs()
    ))
}

async fn lives_one(petri: &Petri<'_>, name: &str) -> Result<(), Error> {
    create(petri, name, "one").await?;
    petri.until_ready(name, PATIENCE).await?;
    ends(petri, name).await
}

/// A token and the Secret that it ends with.
#[derive(Clone)]
struct Held {
    token: String,
    secret: String,
}

/// Who puts the operator's token into its file, as a kubelet does.
struct Holder {
    file: PathBuf,
    server: String,
    current: Held,
    old: Option<Held>,
    number: usize,
}

impl Holder {
    async fn new(petri: &Petri<'_>, server: &Value) -> Result<Self, Error> {
        let server = server["server"].as_str().unwrap_or_default().to_owned();
        let current = hold(petri, 0).await?;
        let file = secret(petri, TOKEN, &current.token)?;
        Ok(Self { file, server, current, old: None, number: 0 })
    }

    /// Writes another token.
    async fn renew(&mut self, petri: &Petri<'_>) -> Result<(), Error> {
        self.number += 1;
        let new = hold(petri, self.number).await?;
        secret(petri, TOKEN, &new.token)?;
        self.old = Some(std::mem::replace(&mut self.current, new));
        Ok(())
    }

    /// Ends the token before the current one, and waits until the API server refuses it.
    async fn forget_old(&mut self, petri: &Petri<'_>) -> Result<(), Error> {
        let Some(old) = self.old.take() else { return Ok(()) };
        self.drop_secret(petri, &old).await?;
        self.refused(&old).await
    }

    async fn drop_secret(&self, petri: &Petri<'_>, held: &Held) -> Result<(), Error> {
        let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), MANAGEMENT);
        secrets.delete(&held.secret, &DeleteParams::default()).await?;
        Ok(())
    }

    async fn refused(&self, held: &Held) -> Result<(), Error> {
        let (client, started) = (reqwest::Client::builder(), Instant::now());
        let client = client.danger_accept_invalid_certs(true).build();
        let client = client.map_err(|error| Error::Wrong(error.to_string()))?;
        while started.elapsed() < BELIEVED_MAX {
            let url = format!("{}/version", self.server);
            let answer = client.get(url).bearer_auth(&held.token).send().await;
            if answer.is_ok_and(|answer| answer.status() == http::StatusCode::UNAUTHORIZED) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Err(Error::Wrong("a token whose Secret is gone still counts".to_owned()))
    }

    async fn end(self, petri: &Petri<'_>) -> Result<(), Error> {
        let _ = std::fs::remove_file(&self.file);
        self.drop_secret(petri, &self.current).await
    }
}

/// Makes a Secret and a token that ends with it.
async fn hold(petri: &Petri<'_>, number: usize) -> Result<Held, Error> {
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let name = format!("renewal-{number}");
    let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
    let made = secrets.create(&PostParams::default(), &Secret { metadata, ..Secret::default() }).await?;
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Secret".to_owned()),
        name: Some(name.clone()),
        uid: made.metadata.uid,
    };
    Ok(Held { token: token(petri, Some(bound)).await?, secret: name })
}

/// Returns the certificate that the API server serves.
async fn certificate(petri: &Petri<'_>) -> Result<Vec<u8>, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Wrong(error.to_string());
    let address = petri.lab.api_address();
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(petri.lab.authority()).map_err(|error| wrong(&error))?;
    roots.add(authority).map_err(|error| wrong(&error))?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.map_err(|error| wrong(&error))?;
    let name = ServerName::IpAddress(address.ip().into());
    let made = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let made = made.map_err(|error| wrong(&error))?;
    let served = made.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    served.map(|served| served.to_vec()).ok_or_else(|| Error::Wrong("no certificate".to_owned()))
}
