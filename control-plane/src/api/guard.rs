//! What stands between the network and the handlers: panics, time, foreign web pages, and a
//! database that is not there yet.

use std::{any::Any, net::SocketAddr, panic::AssertUnwindSafe, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt;

use super::state::ApiState;
use crate::problem::{Code, Problem};

/// Within this a handler must have answered. Streams count until they begin.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(30);

/// Middleware: a handler that panics answers with a problem.
pub(super) async fn catch_panics(request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => Problem::panicked(panic_message(&*panic)).into_response(),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "no message"
    }
}

/// Middleware: no request takes longer than [`HANDLER_TIMEOUT`].
pub(super) async fn bound_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(HANDLER_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(
            Code::HandlerTimeout,
            format!(
                "the request was given up after {} s",
                HANDLER_TIMEOUT.as_secs()
            ),
        )
        .with_hint("it may still take effect: look before you repeat it")
        .into_response(),
    }
}

/// Middleware: routes that need the database answer 503 until it is there.
pub(super) async fn require_ready(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    match state.check_ready() {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Which callers are trusted, without accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// The service listens on loopback: a name that a web page has made point here is no caller.
    Loopback,
    /// Whoever reaches the service; the network in front of it decides.
    Network,
}

impl Trust {
    pub(super) fn of(listen: SocketAddr) -> Self {
        if listen.ip().is_loopback() {
            Trust::Loopback
        } else {
            Trust::Network
        }
    }
}

/// Middleware: a web page from elsewhere, open in a browser on this machine, gets nothing.
pub(super) async fn refuse_foreign_pages(
    State(trust): State<Trust>,
    request: Request,
    next: Next,
) -> Response {
    match foreign(trust, request.headers()) {
        None => next.run(request).await,
        Some(reason) => Problem::new(Code::ForeignOrigin, reason)
            .with_hint("call the service by its own address, not from another web page")
            .into_response(),
    }
}

fn foreign(trust: Trust, headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST);
    if trust == Trust::Loopback
        && let Some(host) = host
        && !names_this_machine(host)
    {
        return Some(format!(
            "the service listens on loopback, the request is for `{host}`"
        ));
    }
    let origin = text(header::ORIGIN)?;
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    if authority.is_some() && authority == host {
        return None;
    }
    Some(format!("the request comes from a page of `{origin}`"))
}

fn names_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority
        .host()
        .trim_start_matches('[')
        .trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn pages_from_elsewhere_are_foreign() {
        let host = |value| (header::HOST, value);
        let origin = |value| (header::ORIGIN, value);
        for good in [
            headers(&[]),
            headers(&[host("127.0.0.1:7090")]),
            headers(&[host("localhost:7090"), origin("http://localhost:7090")]),
            headers(&[host("[::1]:7090")]),
        ] {
            assert_eq!(foreign(Trust::Loopback, &good), None, "{good:?}");
        }
        for bad in [
            headers(&[host("evil.example:7090")]),
            headers(&[host("127.0.0.1:7090"), origin("https://evil.example")]),
            headers(&[host("127.0.0.1:7090"), origin("null")]),
            headers(&[host("127.0.0.1:7090"), origin("http://127.0.0.1:9999")]),
        ] {
            assert!(foreign(Trust::Loopback, &bad).is_some(), "{bad:?}");
        }
        let named = headers(&[host("millrace.internal")]);
        assert_eq!(foreign(Trust::Network, &named), None);
    }
}
