//! Stops an execution everywhere, whatever state its workers are in.

use std::time::Duration;

use futures::future::join_all;
use millrace_protocol::v1;
use millrace_types::{ExecutionId, WorkerId};

use super::{
    connection::Client,
    crew::{Member, Yard, handle},
    inbox::Message,
};
use crate::{provision::WorkerHandle, store::Result};

/// A worker joins its slots within 30 s, or ends by itself.
const CANCEL_LIMIT: Duration = Duration::from_secs(40);
/// Time for a worker to end by itself that has not said that its execution is over.
const GRACE: Duration = Duration::from_secs(5);
/// The same for one that has: nothing of it is worth waiting for while the job's owner does. And
/// for one that has not answered already, while the job waits to start again.
const SHORT_GRACE: Duration = Duration::from_millis(300);

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
        let answered = if keep {
            let request = self.execution_request(execution);
            let cancel = |mut client: Client| {
                let request = request.clone();
                async move { client.cancel(request).await }
            };
            answering(crew, cancel).await
        } else {
            // A worker that is told to end ends its execution first.
            let request = v1::AttachRequest {
                epoch: self.lease.epoch.0,
                job_id: self.lease.job.to_string(),
            };
            let shut_down = |mut client: Client| {
                let request = request.clone();
                async move { client.shutdown(request).await }
            };
            answering(crew, shut_down).await
        };
        let rows = self.rows().await?;
        let (ended, others): (Vec<WorkerHandle>, Vec<WorkerHandle>) = rows
            .iter()
            .map(handle)
            .partition(|worker| answered.contains(&worker.worker));
        if keep {
            let reason = "it could not be stopped in order";
            self.dismiss(&others, SHORT_GRACE, reason).await?;
            return Ok(answered);
        }
        let reason = "ended with its job";
        tokio::try_join!(
            self.dismiss(&ended, SHORT_GRACE, reason),
            self.dismiss(&others, GRACE, reason),
        )?;
        Ok(Vec::new())
    }
}

/// Calls every worker, and returns those that have done what they were asked to.
async fn answering<F>(crew: &[Member], call: impl Fn(Client) -> F) -> Vec<WorkerId>
where
    F: Future<Output = std::result::Result<tonic::Response<v1::Ack>, tonic::Status>>,
{
    let answers = join_all(crew.iter().map(|member| {
        let answer = member.call(CANCEL_LIMIT, &call);
        async move { answer.await.is_ok().then_some(member.worker) }
    }))
    .await;
    answers.into_iter().flatten().collect()
}
