//! JSON lines on standard output.
use std::error::Error;
use tracing_subscriber::EnvFilter;

/// Always in force, under whatever is configured. kube's request log calls every refused request an error, and
/// refusals are expected here; the others are chatter of the connection, whose end the watches report themselves.
const QUIET: &str = "kube_client::client=error,kube_client::client::builder=off,hyper_util=warn,h2=warn,rustls=warn,tower=warn";

/// Starts logging by these directives; `RUST_LOG`, if set, replaces them.
///
/// # Errors
/// The directives make no filter, or logging was started before.
pub fn start(directives: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let replaced = std::env::var("RUST_LOG").ok().filter(|replaced| !replaced.is_empty());
    let chosen = replaced.as_deref().unwrap_or(directives);
    let filter = EnvFilter::try_new(format!("{QUIET},{chosen}"))?;
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).try_init()
}
