//! The servers of these tests are followed by the engines that each test starts. No test lives here.

use std::sync::Arc;

use tenure_server::Api;
use tokio::sync::watch;

/// Starts none.
pub fn start(_: &Arc<Api>, _: watch::Receiver<bool>) {}
