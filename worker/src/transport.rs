//! Settings that every gRPC connection of a worker shares, and how their errors read.

use std::{error::Error, time::Duration};

use tonic::{
    Status,
    transport::{Endpoint, Server},
};

/// A peer whose machine vanished is noticed after the interval plus the timeout.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
pub(crate) const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// The settings of a client connection.
pub(crate) fn tuned(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
}

/// The settings of the worker's server.
pub(crate) fn server() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
}

/// An error with the causes that its own text leaves out.
pub(crate) fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// What a status says, in words. Tells a connection that broke from an answer of the peer.
pub(crate) fn describe_status(status: &Status) -> String {
    if let Some(source) = status.source() {
        return format!("the connection broke ({})", describe(source));
    }
    match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    }
}
