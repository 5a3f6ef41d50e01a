use std::time::Duration;

use clap::Args;
use tokio::{sync::Mutex, time::timeout};
use tokio_postgres::{Client, Config, NoTls};

use super::{CALL_TIMEOUT, WorkloadError};

/// One transaction, so that replicas that start together do not trip over each other's CREATE.
const SCHEMA: &str = "
    SELECT pg_advisory_xact_lock(7);
    CREATE TABLE IF NOT EXISTS queries (single bool PRIMARY KEY CHECK (single), total bigint NOT NULL);
    INSERT INTO queries VALUES (true, 0) ON CONFLICT DO NOTHING;
    CREATE TABLE IF NOT EXISTS work (id bigserial PRIMARY KEY, worker text NOT NULL);";

/// Names the database, by the variables that every PostgreSQL client reads.
#[derive(Args, Debug, Clone)]
pub struct DatabaseArgs {
    #[arg(long, env = "PGHOST")]
    host: String,
    #[arg(long, env = "PGPORT", default_value_t = 5432)]
    port: u16,
    #[arg(long, env = "PGDATABASE")]
    database: String,
    #[arg(long, env = "PGUSER")]
    user: String,
    #[arg(long, env = "PGPASSWORD", hide_env_values = true)]
    password: String,
}

/// Holds one connection and makes a new one after any failure: the database may be replaced at any time.
pub struct Database {
    config: Config,
    client: Mutex<Option<Client>>,
}

impl Database {
    /// Prepares a connection; nothing is dialled before the first query.
    #[must_use]
    pub fn new(args: &DatabaseArgs) -> Self {
        let mut config = Config::new();
        config
            .host(&args.host)
            .port(args.port)
            .dbname(&args.database)
            .user(&args.user)
            .password(&args.password)
            .application_name("petri-workload")
            .connect_timeout(Duration::from_secs(1));
        Self { config, client: Mutex::new(None) }
    }

    /// Runs `query`; a failed or slow one drops the connection.
    ///
    /// # Errors
    /// The database is not there, refuses, or takes longer than 1.5 s.
    pub async fn run<T>(
        &self,
        query: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, WorkloadError> {
        let mut slot = timeout(CALL_TIMEOUT, self.client.lock()).await.map_err(|_| SLOW)?;
        // Taken out of the slot, so that a cancelled request cannot leave a half-used connection behind.
        let held = slot.take().filter(|client| !client.is_closed());
        let work = async {
            let client = match held {
                Some(client) => client,
                None => self.connect().await?,
            };
            let answer = query(&client).await?;
            Ok::<_, WorkloadError>((client, answer))
        };
        let (client, answer) = timeout(CALL_TIMEOUT, work).await.map_err(|_| SLOW)??;
        *slot = Some(client);
        Ok(answer)
    }

    async fn connect(&self) -> Result<Client, WorkloadError> {
        let (client, connection) = self.config.connect(NoTls).await?;
        // Its failure shows as the client's next error.
        tokio::spawn(connection);
        client.batch_execute(SCHEMA).await?;
        Ok(client)
    }
}

const SLOW: WorkloadError = WorkloadError::Timeout("the database");
