//! A way to Postgres that can be cut.

use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
};

use crate::store::Store;

pub(super) struct Proxy {
    open: watch::Sender<bool>,
    options: PgConnectOptions,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Proxy {
    pub(super) async fn start(database: &PgConnectOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (open, is_open) = watch::channel(true);
        let target = Arc::new(database.clone());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if !*is_open.borrow() {
                    continue;
                }
                let (target, mut is_open) = (target.clone(), is_open.clone());
                tokio::spawn(async move {
                    let mut server = connect(&target).await;
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        _ = is_open.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        // A socket in the options would win over the host.
        let options = PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(address.port())
            .username(database.get_username())
            .database(database.get_database().expect("a database"));
        Proxy { open, options }
    }

    pub(super) fn store(&self) -> Store {
        Store::with_options(self.options.clone())
    }

    /// Breaks all connections and refuses new ones.
    pub(super) fn cut(&self) {
        self.open.send_replace(false);
    }

    pub(super) fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn connect(target: &PgConnectOptions) -> Box<dyn Stream> {
    match target.get_socket() {
        Some(directory) => {
            let path = directory.join(format!(".s.PGSQL.{}", target.get_port()));
            Box::new(UnixStream::connect(path).await.expect("the database"))
        }
        None if target.get_host().starts_with('/') => {
            let path = format!("{}/.s.PGSQL.{}", target.get_host(), target.get_port());
            Box::new(UnixStream::connect(path).await.expect("the database"))
        }
        None => {
            let address = (target.get_host().to_owned(), target.get_port());
            Box::new(TcpStream::connect(address).await.expect("the database"))
        }
    }
}
