//! A fresh database per test, on the server that `MILLRACE_TEST_DATABASE_URL` names.

use std::{io::Write, str::FromStr, time::Duration};

use sqlx::{AssertSqlSafe, ConnectOptions, Connection, postgres::PgConnectOptions};
use uuid::Uuid;

use super::Store;

/// Names the server, as a superuser: `postgres://postgres@127.0.0.1:5432/postgres`.
const VARIABLE: &str = "MILLRACE_TEST_DATABASE_URL";

/// A database that is dropped with this.
pub(crate) struct TestDatabase {
    pub(crate) store: Store,
    /// Of this database.
    pub(crate) options: PgConnectOptions,
    server: PgConnectOptions,
    name: String,
}

impl TestDatabase {
    /// Absent, with a word on stderr, where no server is named.
    pub(crate) async fn create() -> Option<Self> {
        let Ok(url) = std::env::var(VARIABLE) else {
            // Past the test harness, which swallows what passing tests print.
            let words = format!("SKIPPED a test: {VARIABLE} is not set; `make test` sets it\n");
            let _ = std::io::stderr().write_all(words.as_bytes());
            return None;
        };
        let server = PgConnectOptions::from_str(&url).expect("a database URL");
        let name = format!("test_{}", Uuid::now_v7().simple());
        let mut connection = server
            .connect()
            .await
            .expect("the server of the test database");
        let create = format!("CREATE DATABASE {name}");
        sqlx::query(AssertSqlSafe(create))
            .execute(&mut connection)
            .await
            .expect("a new database");
        connection.close().await.expect("a closed connection");
        let options = server.clone().database(&name);
        let store = Store::with_options(options.clone());
        store.migrate().await.expect("the schema");
        Some(TestDatabase {
            store,
            options,
            server,
            name,
        })
    }

    /// The store as another process would have it.
    pub(crate) fn another_store(&self) -> Store {
        Store::with_options(self.options.clone())
    }

    /// Drops the database. Tests that fail leave theirs behind, to be looked at.
    pub(crate) async fn drop(self) {
        self.store.pool().close().await;
        let mut connection = self.server.connect().await.expect("the server");
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        sqlx::query(AssertSqlSafe(drop))
            .execute(&mut connection)
            .await
            .expect("the database dropped");
    }
}

/// Long enough for anything that should happen at once on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);
