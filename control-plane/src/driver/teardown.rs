//! Stops an execution everywhere, whatever state its workers are in.

use std::time::Duration;

use futures::future::join_all;
use millrace_protocol::v1;
use millrace_types::{ExecutionId, WorkerId};

use super::{
    crew::{Member, Yard, handle},
    inbox::Message,
};
use crate::{provision::WorkerHandle, store::Result};

/// A worker joins its slots within 30 s, or ends by itself.
const CANCEL_LIMIT: Duration = Duration::from_secs(40);
/// Time for a worker to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// The same for one that has not answered already, while the job waits to start again.
const SHORT_GRACE: Duration = Duration::from_millis(500);

impl Yard {
    /// Stops the execution. With `keep` those workers stay that answer; all others are ended,
    /// and gone when this answers.
    pub(super) async fn tear_down(
        self,
        teardown: u64,
        execution: ExecutionId,
        crew: Vec<Member>,
        keep: bool,
    ) {
        match self.try_tear_down(execution, &crew, keep).await {
            Ok(survivors) => self.outbox.send(Message::TornDown {
                teardown,
                execution,
                survivors,
            }),
            Err(error) => self.store_failed(&error, execution),
        }
    }

    async fn try_tear_down(
        &self,
        execution: ExecutionId,
        crew: &[Member],
        keep: bool,
    ) -> Result<Vec<WorkerId>> {
        let survivors: Vec<WorkerId> = if keep {
            let request = self.execution_request(execution);
            let answers = join_all(crew.iter().map(|member| {
                let request = request.clone();
                async move {
                    let answer = member
                        .call(CANCEL_LIMIT, async move |mut client| {
                            client.cancel(request).await
                        })
                        .await;
                    answer.is_ok().then_some(member.worker)
                }
            }))
            .await;
            answers.into_iter().flatten().collect()
        } else {
            // A worker that is told to end ends its execution first.
            let request = v1::AttachRequest {
                epoch: self.lease.epoch.0,
                job_id: self.lease.job.to_string(),
            };
            join_all(crew.iter().map(|member| {
                let request = request.clone();
                member.call(CANCEL_LIMIT, async move |mut client| {
                    client.shutdown(request).await
                })
            }))
            .await;
            Vec::new()
        };
        let rows = self.rows().await?;
        let others: Vec<WorkerHandle> = rows
            .iter()
            .filter(|row| !survivors.contains(&row.id))
            .map(handle)
            .collect();
        let (grace, reason) = if keep {
            (SHORT_GRACE, "it could not be stopped in order")
        } else {
            (GRACE, "ended with its job")
        };
        self.dismiss(&others, grace, reason).await?;
        Ok(survivors)
    }
}
