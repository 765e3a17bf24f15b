//! Watching jobs: events, metrics, output.

use std::{io::Write, time::Duration};

use futures::StreamExt;
use millrace_control_plane::api::view::{
    EventView, GraphView, JobMetricsView, OutputDropped, OutputEnd, OutputGap, OutputMoved,
    OutputRowView,
};

use crate::{
    args::{EventsArgs, MetricsArgs, OutputArgs, OutputFormat},
    client::{Client, ServerEvent},
    out, progress,
    rows::{Row, RowPrinter, Shape},
    table,
};

/// A pause in the rows after which a table shows what it has.
const QUIET: Duration = Duration::from_millis(300);

pub(super) async fn events(
    args: EventsArgs,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let path = client.job_path(&args.job, "events")?;
    let query = [("after", args.after.to_string())];
    if !args.follow {
        let events: Vec<EventView> = client.list(&path, &query, usize::MAX).await?;
        return match format {
            OutputFormat::Json => Ok(out::json(&events)?),
            OutputFormat::Table => events
                .iter()
                .try_for_each(|event| Ok(out::line(&event_line(event))?)),
        };
    }
    let mut stream = client.events(&path, &query).await?;
    while let Some(event) = stream.next().await {
        let event: EventView = serde_json::from_str(&event?.data)?;
        match format {
            OutputFormat::Json => out::json_line(&event)?,
            OutputFormat::Table => out::line(&event_line(&event))?,
        }
    }
    anyhow::bail!("the service ended the stream")
}

/// One event in one line.
pub(crate) fn event_line(event: &EventView) -> String {
    format!(
        "{:>5}  {}  {:<7}  {:<22}  {}",
        event.sequence,
        event.at.format("%Y-%m-%d %H:%M:%S%.3f"),
        event.severity,
        event.kind,
        event.message
    )
}

pub(super) async fn metrics(
    args: MetricsArgs,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let path = client.job_path(&args.job, "metrics")?;
    loop {
        let metrics = client.get::<JobMetricsView>(&path, &[]).await?.value;
        match format {
            OutputFormat::Json if args.watch => out::json_line(&metrics)?,
            OutputFormat::Json => out::json(&metrics)?,
            OutputFormat::Table => out::line(&metrics_table(&metrics))?,
        }
        if !args.watch {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn metrics_table(metrics: &JobMetricsView) -> String {
    if metrics.operators.is_empty() {
        return "no metrics yet: the job does not run, or has only just started".to_owned();
    }
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let rows: Vec<Vec<String>> = metrics
        .operators
        .iter()
        .map(|operator| {
            vec![
                operator.node.to_string(),
                operator.name.clone(),
                operator.rows_in.to_string(),
                operator.rows_out.to_string(),
                format!("{:.0}", operator.rows_out_per_second),
                percent(operator.busy),
                percent(operator.backpressured),
                percent(operator.idle),
                operator
                    .watermark
                    .map_or_else(|| "-".to_owned(), progress::time),
                operator.late_rows.to_string(),
                operator.bad_records.to_string(),
                operator.state_entries.to_string(),
                table::bytes(operator.state_bytes),
            ]
        })
        .collect();
    let headers = [
        "NODE",
        "OPERATOR",
        "IN",
        "OUT",
        "OUT/S",
        "BUSY",
        "BLOCKED",
        "IDLE",
        "WATERMARK",
        "LATE",
        "BAD",
        "KEYS",
        "STATE",
    ];
    table::layout(&headers, &rows).trim_end().to_owned()
}

pub(super) async fn output(
    args: OutputArgs,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let query: Vec<(&str, String)> = args
        .table
        .iter()
        .map(|name| ("table", name.clone()))
        .collect();
    // Whether results are updated is known from the graph.
    let graph = client
        .get::<GraphView>(&client.job_path(&args.job, "graph")?, &[])
        .await?
        .value;
    let sinks: Vec<_> = graph
        .nodes
        .iter()
        .filter(|node| node.kind == "sink")
        .filter(|node| args.table.is_none() || node.table == args.table)
        .collect();
    let shape = Shape {
        updating: sinks.iter().any(|sink| sink.changelog != "append"),
        several: sinks.len() > 1,
    };
    let mut printer = RowPrinter::new(std::io::stdout(), format, shape);
    let mut stream = client
        .events(&client.job_path(&args.job, "output")?, &query)
        .await?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let event = match tokio::time::timeout(QUIET, stream.next()).await {
            Ok(Some(event)) => event?,
            Ok(None) => {
                printer.flush()?;
                anyhow::bail!("the service ended the stream");
            }
            Err(_) => {
                printer.flush()?;
                continue;
            }
        };
        match show_output(&event, &mut printer)? {
            Shown::Row => left -= 1,
            Shown::Note => {}
            Shown::End => break,
        }
    }
    printer.flush()?;
    Ok(())
}

enum Shown {
    Row,
    Note,
    End,
}

fn show_output<W: Write>(
    event: &ServerEvent,
    printer: &mut RowPrinter<W>,
) -> anyhow::Result<Shown> {
    match event.name.as_str() {
        "row" => {
            let row: OutputRowView = serde_json::from_str(&event.data)?;
            printer.row(&Row {
                table: row.table,
                kind: row.kind,
                row: row.row,
            })?;
            Ok(Shown::Row)
        }
        "dropped" => {
            let dropped: OutputDropped = serde_json::from_str(&event.data)?;
            printer.flush()?;
            eprintln!("({} rows left out: they came too fast)", dropped.dropped);
            Ok(Shown::Note)
        }
        "gap" => {
            let gap: OutputGap = serde_json::from_str(&event.data)?;
            printer.flush()?;
            eprintln!("({}: they are not shown)", gap.reason);
            Ok(Shown::Note)
        }
        "moved" => {
            let moved: OutputMoved = serde_json::from_str(&event.data)?;
            printer.flush()?;
            anyhow::bail!(
                "replica {} of the service drives the job now\n  hint: name its address with --server to see the rows to come",
                moved.replica
            )
        }
        "end" => {
            let end: OutputEnd = serde_json::from_str(&event.data)?;
            printer.flush()?;
            eprintln!("(the job is {})", end.state);
            Ok(Shown::End)
        }
        // What a later version may add.
        _ => Ok(Shown::Note),
    }
}
