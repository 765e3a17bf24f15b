//! Why there is no connection to the database, in words for whoever has set it up.
//!
//! The pool repeats attempts and in the end only says that they took too long. One attempt of its
//! own tells the cause.

use std::{io, time::Duration};

use sqlx::{ConnectOptions, Connection, Error, postgres::PgConnectOptions};
use tokio::time::timeout;

use super::{Result, StoreError};

/// An attempt to connect that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(3);

/// Tries to connect once.
pub(super) async fn probe(options: &PgConnectOptions) -> Result<()> {
    let attempt = timeout(LIMIT, options.connect()).await;
    let (reason, source) = match attempt {
        Ok(Ok(connection)) => {
            // It has served its purpose, however it ends.
            let _ = timeout(LIMIT, connection.close()).await;
            return Ok(());
        }
        Ok(Err(error)) => (reason(options, &error), error),
        Err(_) => (
            format!(
                "no answer from {} within {} s: is it the right host?",
                place(options),
                LIMIT.as_secs()
            ),
            Error::PoolTimedOut,
        ),
    };
    Err(StoreError::NoConnection { reason, source })
}

fn place(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => format!("{} (port {})", socket.display(), options.get_port()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

fn reason(options: &PgConnectOptions, error: &Error) -> String {
    let place = place(options);
    match error {
        Error::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => format!(
                "nothing answers at {place} ({error}): start Postgres there, or correct the database URL"
            ),
            _ => format!("{place} cannot be reached: {error}"),
        },
        Error::Database(answer) => {
            let hint = match answer.code().as_deref() {
                Some("28P01" | "28000") => {
                    "correct the user and the password of the database URL".to_owned()
                }
                Some("3D000") => match options.get_database() {
                    Some(name) => {
                        format!("CREATE DATABASE \"{name}\", or correct the database URL")
                    }
                    None => "name a database at the end of the database URL".to_owned(),
                },
                Some("57P03") => "it is starting or stopping".to_owned(),
                _ => "see its log".to_owned(),
            };
            format!(
                "Postgres at {place} refuses the connection: {}: {hint}",
                answer.message()
            )
        }
        error => format!("no connection to Postgres at {place}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;
    use crate::{
        problem::chain,
        store::{Store, test_database::TestDatabase},
    };

    async fn why(url: &str) -> String {
        let store = Store::connect_lazy(url).expect("a URL");
        let started = std::time::Instant::now();
        let error = store.probe().await.expect_err("no connection");
        assert!(started.elapsed() < Duration::from_secs(4));
        assert!(error.is_unavailable(), "{error:?}");
        chain(&error)
    }

    #[tokio::test]
    async fn a_closed_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let why = why(&format!("postgres://me:secret@127.0.0.1:{port}/db")).await;
        assert!(
            why.contains(&format!("nothing answers at 127.0.0.1:{port}")),
            "{why}"
        );
        assert!(!why.contains("secret"), "{why}");
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let why = why(&format!("postgres://me@127.0.0.1:{port}/db")).await;
        assert!(
            why.contains(&format!("no answer from 127.0.0.1:{port}")),
            "{why}"
        );
    }

    #[tokio::test]
    async fn what_the_server_refuses_is_said() {
        let Some(database) = TestDatabase::create().await else {
            return;
        };
        let options = database.options.clone();
        let missing = Store::with_options(options.clone().database("not_there"));
        let why = chain(&missing.probe().await.expect_err("no such database"));
        assert!(
            why.contains("database \"not_there\" does not exist: CREATE DATABASE \"not_there\""),
            "{why}"
        );
        // Where the server trusts everybody, a wrong password is none.
        let stranger = Store::with_options(options.username("nobody_i_know").password("wrong"));
        let why = chain(&stranger.probe().await.expect_err("no such user"));
        assert!(why.contains("nobody_i_know"), "{why}");
        assert!(why.contains("correct the user and the password"), "{why}");
        assert!(!why.contains("wrong"), "{why}");
        database.drop().await;
    }

    #[test]
    fn a_socket_is_a_place_too() {
        let options =
            PgConnectOptions::from_str("postgres:///db?host=/run/postgresql&port=5433").unwrap();
        assert_eq!(place(&options), "/run/postgresql (port 5433)");
    }
}
