//! The worker: writes a row every period, and is healthy while it succeeds.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Router, http::StatusCode, routing::get};
use tokio::sync::watch;

use super::Database;

/// Writes rows until dropped; tells the time of each success to the receivers of `last`.
pub async fn work(database: Arc<Database>, period: Duration, last: watch::Sender<Option<Instant>>) {
    let name = std::env::var("HOSTNAME").unwrap_or_default();
    loop {
        let insert = async |client: &tokio_postgres::Client| {
            client.execute("INSERT INTO work (worker) VALUES ($1)", &[&name]).await
        };
        match database.run(insert).await {
            Ok(_) => {
                last.send_replace(Some(Instant::now()));
            }
            Err(error) => eprintln!("{error}"),
        }
        tokio::time::sleep(period).await;
    }
}

/// Builds the route `/healthz`: 200 while the last row is at most three periods and two seconds old.
pub fn router(period: Duration, last: watch::Receiver<Option<Instant>>) -> Router {
    let patience = period * 3 + Duration::from_secs(2);
    let health = move || {
        let fresh = last.borrow().is_some_and(|at| at.elapsed() <= patience);
        async move { if fresh { (StatusCode::OK, "ok\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "idle\n") } }
    };
    Router::new().route("/healthz", get(health))
}
