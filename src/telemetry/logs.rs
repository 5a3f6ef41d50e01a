//! JSON lines on standard output.
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// Starts logging at this level; `RUST_LOG` adds directives for single modules.
///
/// kube's own request log is off: it calls every refused request an error, and refusals are expected here.
///
/// # Errors
/// Logging was started before.
pub fn start(level: LevelFilter) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let quiet =
        ["kube_client::client::builder=off", "hyper_util=warn", "tower=warn", "h2=warn", "rustls=warn"];
    let extra = std::env::var("RUST_LOG").unwrap_or_default();
    let directives = quiet
        .into_iter()
        .chain(extra.split(',').filter(|directive| !directive.is_empty()))
        .collect::<Vec<_>>();
    let filter = EnvFilter::builder().with_default_directive(level.into()).parse_lossy(directives.join(","));
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).try_init()
}
