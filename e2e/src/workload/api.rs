//! The api: every answer comes out of the environment's database.

use std::sync::Arc;

use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use serde::{Deserialize, Serialize};

use super::{Database, WorkloadError};

/// Is what the api knows of its database, each field by a query of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// `current_database()`.
    pub database: String,
    /// What the database wrote about itself when it was made.
    pub marker: String,
    /// PostgreSQL's own identity of the instance: no two are alike, and a replaced database has another.
    pub instance: String,
    /// Answers given out of this database so far, this one included; counted in the database.
    pub queries: i64,
    /// Rows that the worker wrote.
    pub work_rows: i64,
    /// The pod that answered.
    pub served_by: String,
}

type Failure = (StatusCode, String);

/// Builds the routes `/` (an [`Answer`]) and `/healthz`.
pub fn router(database: Database) -> Router {
    Router::new().route("/", get(answer)).route("/healthz", get(health)).with_state(Arc::new(database))
}

async fn answer(State(database): State<Arc<Database>>) -> Result<Json<Answer>, Failure> {
    let row = database
        .run(async |client| {
            let count = "UPDATE queries SET total = total + 1 RETURNING total";
            let total = client.query_one(count, &[]).await?;
            let about = "SELECT current_database()::text, (SELECT marker FROM instance),
                (SELECT system_identifier::text FROM pg_control_system()), (SELECT count(*) FROM work)";
            Ok((total, client.query_one(about, &[]).await?))
        })
        .await
        .and_then(|(total, about)| {
            Ok(Answer {
                queries: total.try_get(0)?,
                database: about.try_get(0)?,
                marker: about.try_get(1)?,
                instance: about.try_get(2)?,
                work_rows: about.try_get(3)?,
                served_by: std::env::var("HOSTNAME").unwrap_or_default(),
            })
        });
    row.map(Json).map_err(unavailable)
}

async fn health(State(database): State<Arc<Database>>) -> Result<&'static str, Failure> {
    let marker =
        database.run(async |client| client.query_one("SELECT marker FROM instance", &[]).await).await;
    marker.map(|_| "ok\n").map_err(unavailable)
}

/// Turns a failure into a 503 that says why; the text stays inside the cluster.
pub(crate) fn unavailable(error: WorkloadError) -> Failure {
    eprintln!("{error}");
    (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"))
}
