//! What happened to a job: page by page, or live as server-sent events.
//!
//! The live form asks the database for what is new twice a second, so it works on every replica
//! and after any reconnect with `Last-Event-ID`.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::Stream;
use millrace_types::{JobId, TenantName};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    page::{Page, PageRequest},
    path::{JobPath, Params, header_text},
    problems::StreamProblems,
    state::ApiState,
    view::EventView,
};
use crate::{
    problem::{Answer, Problem},
    store::StoreError,
};

const POLL: Duration = Duration::from_millis(500);
/// Events fetched at once.
const BATCH: u32 = 200;

/// Which events to show.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Only events after this one. For a stream, `Last-Event-ID` takes precedence.
    after: Option<u64>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// Most items to return, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// Lists a job's events, oldest first, or streams them.
///
/// With `Accept: text/event-stream` the answer is a stream of server-sent events named by the
/// event's kind, with an `EventView` as data and its number as id. It starts after `Last-Event-ID`
/// or `after`, else at the beginning, and stays open for what is to come.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/events", tag = "live",
    params(("tenant" = String, Path), ("job" = String, Path), EventsQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "Resumes a stream after this event")),
    responses(
        (status = 200, content((Page<EventView> = "application/json"), (EventView = "text/event-stream"))),
        StreamProblems,
    )
)]
pub(crate) async fn job_events(
    State(state): State<ApiState>,
    path: JobPath,
    Params(query): Params<EventsQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    if wants_stream(&headers) {
        let after = last_event_id(&headers)?.or(query.after).unwrap_or(0);
        let permit = state.open_stream()?;
        let stream = follow(state, path.tenant, job.id, after, permit);
        return Ok(Sse::new(stream)
            .keep_alive(KeepAlive::default())
            .into_response());
    }
    let request = PageRequest::<u64>::new("events", query.cursor.as_deref(), query.limit)?;
    let after = request.after.or(query.after).unwrap_or(0);
    let events = state
        .store()
        .list_events(&path.tenant, job.id, after, request.fetch())
        .await?;
    Ok(Json(request.page(events, |event| event.sequence, EventView::from)).into_response())
}

/// Whether the caller asks for server-sent events.
pub(super) fn wants_stream(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|range| {
            let essence = range.split(';').next().unwrap_or(range).trim();
            essence.eq_ignore_ascii_case("text/event-stream")
        })
}

fn last_event_id(headers: &HeaderMap) -> Answer<Option<u64>> {
    header_text(headers, "last-event-id")?
        .map(|text| {
            text.trim()
                .parse()
                .map_err(|_| Problem::parameter("Last-Event-ID", "is not the number of an event"))
        })
        .transpose()
}

fn follow(
    state: ApiState,
    tenant: TenantName,
    job: JobId,
    after: u64,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    let (sender, receiver) = tokio::sync::mpsc::channel(64);
    let shutdown = state.shutdown();
    tokio::spawn(async move {
        let _permit = permit;
        let mut after = after;
        loop {
            match state.store().list_events(&tenant, job, after, BATCH).await {
                Ok(events) => {
                    let full = events.len() >= BATCH as usize;
                    for record in events {
                        after = record.sequence;
                        let view = EventView::from(record);
                        let event = Event::default().id(after.to_string()).event(&view.kind);
                        let Ok(event) = event.json_data(&view) else {
                            return;
                        };
                        if sender.send(Ok(event)).await.is_err() {
                            return;
                        }
                    }
                    if full {
                        continue;
                    }
                }
                // The job was deleted: there is nothing to come.
                Err(StoreError::JobNotFound { .. }) => return,
                // The reader keeps its place while the database is away.
                Err(error) => tracing::debug!(%error, "events cannot be read, trying again"),
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = sender.closed() => return,
                () = shutdown.cancelled() => return,
            }
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(receiver)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn accept(text: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(text));
        headers
    }

    #[test]
    fn a_stream_is_asked_for_by_media_type() {
        assert!(wants_stream(&accept("text/event-stream")));
        assert!(wants_stream(&accept(
            "application/json;q=0.5, Text/Event-Stream; q=1"
        )));
        assert!(!wants_stream(&accept("application/json, */*")));
        assert!(!wants_stream(&HeaderMap::new()));
    }
}
