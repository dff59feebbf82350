//! The servers of these tests are followed by the engines that each test starts. No test lives here.

use std::sync::Arc;

use tenure_server::ApiServer;
use tokio::sync::watch;

/// Starts none.
pub fn start(_: &Arc<ApiServer>, _: watch::Receiver<bool>) {}
