//! A job's metrics, its output as it comes, its graph and its workers.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json,
    extract::State,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::Stream;
use millrace_types::{JobId, TenantName, WorkerId};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, broadcast::error::RecvError, mpsc};

use super::{
    page::{Page, PageQuery, PageRequest},
    path::{JobPath, Params},
    problems::{JobProblems, MetricsProblems, OutputProblems, ServiceProblems},
    state::ApiState,
    view::{
        GraphView, JobMetricsView, OutputDropped, OutputEnd, OutputGap, OutputMoved, OutputRowView,
        WorkerView,
    },
};
use crate::{
    live::{OutputRow, Preview},
    problem::{Answer, Code, Problem},
    store::{JobRecord, JobRef, StoreError},
};

/// How often a stream of rows looks whether the job has ended.
const STATE_POLL: Duration = Duration::from_millis(500);

/// Shows the latest metrics of a job's operators.
///
/// The counters count from the start of the execution; the list is empty before the first report.
/// Only the replica that drives the job knows them: the others answer `driven-elsewhere`.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/metrics", tag = "live",
    params(("tenant" = String, Path), ("job" = String, Path)),
    responses((status = 200, body = JobMetricsView), MetricsProblems)
)]
pub(crate) async fn job_metrics(
    State(state): State<ApiState>,
    path: JobPath,
) -> Answer<Json<JobMetricsView>> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let driver = refuse_elsewhere(&state, &job).await?;
    if driver.is_none() && job.state.is_active() && job.execution.is_some() {
        let detail = format!(
            "job `{}` is {}, but no replica of the service drives it at the moment: what it measures is not known",
            job.name, job.state
        );
        return Err(Problem::new(Code::NoDriver, detail)
            .with_hint("its workers go on; a replica takes it over when the lease of the former one has expired")
            .with_retry_after(2));
    }
    let view = match state.live().metrics(job.id) {
        Some(metrics) => JobMetricsView::from(metrics),
        None => JobMetricsView {
            execution: None,
            at: None,
            operators: Vec::new(),
        },
    };
    Ok(Json(view))
}

/// The replica that drives the job. Another one than this is a problem: what the job measures
/// and prints is in its memory, and nothing here would look like a job that does nothing.
async fn refuse_elsewhere(state: &ApiState, job: &JobRecord) -> Answer<Option<String>> {
    let driver = state.store().driver_of(job.id).await?;
    match &driver {
        Some(replica) if replica != state.replica() => Err(Problem::new(
            Code::DrivenElsewhere,
            format!(
                "job `{}` is driven by replica `{replica}`, this is replica `{}`: only the former knows what the job measures and prints",
                job.name,
                state.replica()
            ),
        )
        .with_hint("send the request to that replica")),
        Some(_) | None => Ok(driver),
    }
}

/// Shows the graph of a job's newest version.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/graph", tag = "jobs",
    params(("tenant" = String, Path), ("job" = String, Path)),
    responses((status = 200, body = GraphView), JobProblems)
)]
pub(crate) async fn job_graph(
    State(state): State<ApiState>,
    path: JobPath,
) -> Answer<Json<GraphView>> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let compiled = state.compiler().compile_or_refuse(job.spec).await?;
    Ok(Json(GraphView::from(&compiled.dataflow)))
}

/// Lists the workers of a job.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/workers", tag = "live",
    params(("tenant" = String, Path), ("job" = String, Path), PageQuery),
    responses((status = 200, body = Page<WorkerView>), JobProblems)
)]
pub(crate) async fn job_workers(
    State(state): State<ApiState>,
    path: JobPath,
    Params(query): Params<PageQuery>,
) -> Answer<Json<Page<WorkerView>>> {
    let request = PageRequest::<WorkerId>::of("job-workers", &query)?;
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let workers = state
        .store()
        .list_workers(Some(job.id), request.after, request.fetch())
        .await?;
    let live = state.live();
    Ok(Json(request.page(
        workers,
        |worker| worker.id,
        |worker| WorkerView::new(worker, live),
    )))
}

/// Lists the workers of all jobs.
#[utoipa::path(
    get, path = "/api/v1/workers", tag = "service",
    params(PageQuery),
    responses((status = 200, body = Page<WorkerView>), ServiceProblems)
)]
pub(crate) async fn all_workers(
    State(state): State<ApiState>,
    Params(query): Params<PageQuery>,
) -> Answer<Json<Page<WorkerView>>> {
    let request = PageRequest::<WorkerId>::of("workers", &query)?;
    let workers = state
        .store()
        .list_workers(None, request.after, request.fetch())
        .await?;
    let live = state.live();
    Ok(Json(request.page(
        workers,
        |worker| worker.id,
        |worker| WorkerView::new(worker, live),
    )))
}

/// Which rows to show.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OutputQuery {
    /// Only rows of this sink's table.
    table: Option<String>,
}

/// Streams the rows that a job writes to its print sinks, as server-sent events.
///
/// First the last rows written, then new ones as they come: `row` with an `OutputRowView`,
/// `dropped` with the number of rows that were lost because the reader is slow (this is a preview:
/// the job never waits for it), and at last `end` when the job has ended, or `moved` when another
/// replica drives it. `gap` comes first where rows were written before this replica drove the job.
/// A replica that does not drive the job answers `driven-elsewhere`.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/output", tag = "live",
    params(("tenant" = String, Path), ("job" = String, Path), OutputQuery),
    responses(
        (status = 200, content((OutputRowView = "text/event-stream"))),
        OutputProblems,
    )
)]
pub(crate) async fn job_output(
    State(state): State<ApiState>,
    path: JobPath,
    Params(query): Params<OutputQuery>,
) -> Answer<Response> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    refuse_elsewhere(&state, &job).await?;
    let permit = state.open_stream()?;
    let stream = tail(state, path.tenant, job.id, query.table, permit);
    Ok(Sse::new(stream)
        .keep_alive(KeepAlive::default())
        .into_response())
}

/// One job's rows on their way to one reader.
struct Tail {
    sender: mpsc::Sender<Result<Event, Infallible>>,
    table: Option<String>,
}

/// The reader is gone.
struct Closed;

impl Tail {
    async fn send<T: Serialize>(
        &self,
        name: &str,
        id: Option<u64>,
        data: &T,
    ) -> Result<(), Closed> {
        let mut event = Event::default().event(name);
        if let Some(id) = id {
            event = event.id(id.to_string());
        }
        let event = event.json_data(data).map_err(|_| Closed)?;
        self.sender.send(Ok(event)).await.map_err(|_| Closed)
    }

    async fn row(&self, row: &OutputRow) -> Result<(), Closed> {
        if self.table.as_ref().is_some_and(|table| *table != row.table) {
            return Ok(());
        }
        match OutputRowView::try_from(row) {
            Ok(view) => self.send("row", Some(row.seq), &view).await,
            Err(error) => {
                tracing::warn!(%error, table = row.table, "a worker sent a row that is no JSON");
                Ok(())
            }
        }
    }
}

fn tail(
    state: ApiState,
    tenant: TenantName,
    job: JobId,
    table: Option<String>,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    let (sender, receiver) = mpsc::channel(256);
    tokio::spawn(async move {
        let _permit = permit;
        let tail = Tail { sender, table };
        // The reader having gone is the usual end.
        let _ = pump(&state, &tenant, job, &tail).await;
    });
    tokio_stream::wrappers::ReceiverStream::new(receiver)
}

async fn pump(
    state: &ApiState,
    tenant: &TenantName,
    job: JobId,
    tail: &Tail,
) -> Result<(), Closed> {
    let shutdown = state.shutdown();
    let Preview {
        gap,
        backlog,
        mut rows,
    } = state.live().output(job);
    if gap {
        let reason = "rows before this were written while another driver, or none, had the job";
        let reason = reason.to_owned();
        tail.send("gap", None, &OutputGap { reason }).await?;
    }
    for row in &backlog {
        tail.row(row).await?;
    }
    let mut poll = tokio::time::interval(STATE_POLL);
    poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Rows may still be on their way when the state says that the job has ended: the stream ends
    // at the second look.
    let mut ended = false;
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = tail.sender.closed() => return Ok(()),
            received = rows.recv() => match received {
                Ok(row) => tail.row(&row).await?,
                Err(RecvError::Lagged(dropped)) => {
                    tail.send("dropped", None, &OutputDropped { dropped }).await?;
                }
                Err(RecvError::Closed) => rows = state.live().output(job).rows,
            },
            _ = poll.tick() => match state.store().get_job(tenant, &JobRef::Id(job)).await {
                Ok(record) if record.state.is_active() => {
                    ended = false;
                    // Without an answer the reader keeps its place.
                    if let Ok(Some(replica)) = state.store().driver_of(job).await
                        && replica != state.replica()
                    {
                        return tail.send("moved", None, &OutputMoved { replica }).await;
                    }
                }
                Ok(record) if ended => {
                    return tail.send("end", None, &OutputEnd { state: record.state }).await;
                }
                Ok(_) => ended = true,
                Err(StoreError::JobNotFound { .. }) => return Ok(()),
                // The reader keeps its place while the database is away.
                Err(error) => tracing::debug!(%error, "the job's state cannot be read, trying again"),
            },
        }
    }
}
