//! An audit log that tests can read. No test lives here.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tenure_server::AuditSink;
use tenure_server::audit::{AuditLevel, AuditPolicy};

/// What was written, and the way to it.
pub struct Paper {
    pub audit: Arc<AuditSink>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

struct Ink(Arc<Mutex<Vec<u8>>>);

impl Write for Ink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    pub fn new(level: AuditLevel) -> Paper {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let audit = AuditSink::start(level, Box::new(Ink(Arc::clone(&bytes)))).unwrap();
        Paper { audit, bytes }
    }

    /// As a policy says it.
    pub fn by_policy(document: &Value) -> Paper {
        let policy = AuditPolicy::read(document).unwrap();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let audit = AuditSink::by_policy(policy, Box::new(Ink(Arc::clone(&bytes)))).unwrap();
        Paper { audit, bytes }
    }

    /// Everything that was written since the last time, as text.
    pub async fn text(&self) -> String {
        self.audit.flush().await;
        String::from_utf8(std::mem::take(&mut *self.bytes.lock().unwrap())).unwrap()
    }

    /// The lines since the last time.
    pub async fn lines(&self) -> Vec<Value> {
        self.text().await.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The one line since the last time.
    pub async fn line(&self) -> Value {
        let mut lines = self.lines().await;
        assert_eq!(lines.len(), 1, "{lines:#?}");
        lines.remove(0)
    }
}
