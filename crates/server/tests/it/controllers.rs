//! The controllers that every server of these tests has: what the API itself promises. No test lives here.

use std::sync::Arc;

use tenure_driver::{Controllers, Driver};
use tenure_server::ApiServer;
use tenure_server::internal_writer::InternalWriter;
use tokio::sync::watch;

/// Runs them on a thread of their own until the end is asked for.
pub fn start(api: &Arc<ApiServer>, stop: watch::Receiver<bool>) {
    let controllers = Controllers::named(&[]).unwrap();
    let (driver, _) = Driver::new(InternalWriter::new(Arc::clone(api)), 1, controllers);
    std::thread::spawn(move || driver.run(stop).unwrap());
}
