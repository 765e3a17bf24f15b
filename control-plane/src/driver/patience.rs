//! Repeats calls of the store while Postgres is away.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    problem::chain,
    store::{Result, StoreError},
};

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Calls until the answer is anything but [`StoreError::Unavailable`].
pub(super) async fn persist<T, F>(what: &str, mut call: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut delay = FIRST;
    let mut told = false;
    loop {
        match call().await {
            Err(error @ StoreError::Unavailable { .. }) => {
                if !told {
                    told = true;
                    tracing::warn!(
                        error = chain(&error),
                        "cannot {what} while the database is away, trying again"
                    );
                }
            }
            answer => {
                if told {
                    tracing::info!("the database is back");
                }
                return answer;
            }
        }
        sleep(delay).await;
        delay = (delay * 2).min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn only_an_absent_database_is_waited_for() {
        let calls = Cell::new(0);
        let answer = persist("test", || {
            calls.set(calls.get() + 1);
            let answer = if calls.get() < 4 {
                Err(StoreError::from(sqlx::Error::PoolTimedOut))
            } else {
                Ok(7)
            };
            async move { answer }
        })
        .await;
        assert_eq!((answer.unwrap(), calls.get()), (7, 4));
        let answer: Result<()> =
            persist("test", || async { Err(sqlx::Error::RowNotFound.into()) }).await;
        assert!(matches!(answer, Err(StoreError::Internal { .. })));
    }
}
