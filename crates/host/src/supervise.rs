//! What cannot be started again ends the process: here it is said, and waited for.

use tokio::sync::watch;

/// What ended although nobody asked for it; whoever waits for it ends the process.
#[derive(Clone, Debug)]
pub(crate) struct TaskFailures(watch::Sender<Option<String>>);

impl TaskFailures {
    pub(crate) fn new() -> TaskFailures {
        TaskFailures(watch::Sender::new(None))
    }

    /// Something without which nothing works has ended; the first to say so is remembered.
    pub(crate) fn report(&self, what: String) {
        self.0.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(what);
            first
        });
    }

    /// Waits for the first report.
    pub(crate) async fn first(&self) -> String {
        let mut receiver = self.0.subscribe();
        match receiver.wait_for(Option::is_some).await.map(|what| what.clone()) {
            Ok(Some(what)) => what,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_failure_is_remembered() {
        let failures = TaskFailures::new();
        failures.report("one".to_owned());
        failures.report("two".to_owned());
        assert_eq!(failures.first().await, "one");
    }
}
