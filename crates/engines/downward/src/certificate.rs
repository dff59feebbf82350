//! The certificate of one `podCertificate` source: when one is asked for, what an answer means, which
//! one the files show and when the next is due (R89b to R89e). Keys are made by the host.
//!
//! ```text
//!   nothing ──► asked ──► shown ──► shown, asked ──► shown      one more for each renewal
//!                 │                      │
//!                 └──► refused ◄─────────┘                      for good, for this pod
//! ```

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::pem;

/// A request that nobody sees this long after it was made is gone, so another is made.
const GONE_AFTER: Duration = Duration::from_secs(10 * 60);
/// Pods of one template do not ask at one moment.
const SPREAD: Duration = Duration::from_secs(5 * 60);
/// A certificate that is not renewed this long after it should have been is worth a word.
const OVERDUE_AFTER: Duration = Duration::from_secs(10 * 60);

/// Something that people should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateNews {
    /// The signer will not sign; with its words.
    Denied(String),
    /// The signer could not sign; with its words.
    Failed(String),
    /// The certificate should have been renewed by now.
    Overdue,
    /// The certificate ended.
    Expired,
}

/// A key and its certificates, both in PEM form.
#[derive(Clone, PartialEq, Eq)]
pub struct CredentialBundle {
    /// The private key.
    pub key: Vec<u8>,
    /// The certificate of the key, and those that vouch for it.
    pub chain: Vec<u8>,
}

struct IssuedCertificate {
    bundle: CredentialBundle,
    refresh: Timestamp,
    ends: Timestamp,
    reported_overdue: bool,
    reported_expired: bool,
}

struct RequestedCertificate {
    key: Vec<u8>,
    request: String,
    gone_at: Timestamp,
}

/// What is known of one source. It holds private keys, so it cannot be printed (R214).
#[derive(Default)]
pub struct ProjectedCertificate {
    shown: Option<IssuedCertificate>,
    open_request: Option<RequestedCertificate>,
    refused: Option<String>,
}

impl ProjectedCertificate {
    /// The name of the request that is not answered yet.
    #[must_use]
    pub fn pending(&self) -> Option<&str> {
        self.open_request.as_ref().map(|open| open.request.as_str())
    }

    /// Whether a request should be made now.
    #[must_use]
    pub fn wants_request(&self, now: Timestamp) -> bool {
        let due = self.shown.as_ref().is_none_or(|shown| shown.refresh <= now);
        due && self.open_request.is_none() && self.refused.is_none()
    }

    /// A request was made with this key; `spread` is a number between 0 and 1.
    pub fn requested(&mut self, key: Vec<u8>, request: &str, now: Timestamp, spread: f64) {
        let gone_at = later(now, GONE_AFTER + SPREAD.mul_f64(spread));
        self.open_request = Some(RequestedCertificate { key, request: request.into(), gone_at });
    }

    /// Takes in the pending request as it now is; `None` while nobody sees it.
    pub fn hear(
        &mut self,
        request: Option<&Object>,
        now: Timestamp,
        spread: f64,
    ) -> Option<CertificateNews> {
        let open_request = self.open_request.take()?;
        let Some(request) = request else {
            self.open_request = (now < open_request.gone_at).then_some(open_request);
            return None;
        };
        let Some((kind, condition)) = answer(request) else {
            self.open_request = Some(open_request);
            return None;
        };
        let text = |member| condition.str_at(&[member]).unwrap_or_default();
        let (reason, message) = (text("reason"), text("message"));
        let name = format!("{}/{}", request.namespace(), request.name());
        let mut refuse = |deed: &str| {
            let said = format!("reason={reason:?} message={message:?}");
            self.refused = Some(format!("PodCertificateRequest was permanently {deed}: {said}"));
            format!("PodCertificateRequest {name} was {deed}, {said}")
        };
        match kind {
            SignerAnswer::Denied => Some(CertificateNews::Denied(refuse("denied"))),
            SignerAnswer::Failed => Some(CertificateNews::Failed(refuse("failed"))),
            SignerAnswer::Issued => {
                self.shown = Some(issued(open_request.key, request, now, spread));
                None
            }
        }
    }

    /// A certificate that is late, told once.
    pub fn late(&mut self, now: Timestamp) -> Option<CertificateNews> {
        let shown = self.shown.as_mut()?;
        if now > shown.ends && !shown.reported_expired {
            (shown.reported_expired, shown.reported_overdue) = (true, true);
            return Some(CertificateNews::Expired);
        }
        if now > later(shown.refresh, OVERDUE_AFTER) && !shown.reported_overdue {
            shown.reported_overdue = true;
            return Some(CertificateNews::Overdue);
        }
        None
    }

    /// What the files show.
    ///
    /// # Errors
    /// There is no certificate: not yet, or never.
    pub fn bundle(&self) -> Result<CredentialBundle, String> {
        match (&self.refused, &self.shown) {
            (Some(why), _) => Err(why.clone()),
            (None, Some(shown)) => Ok(shown.bundle.clone()),
            (None, None) => Err("credential bundle is not issued yet".to_string()),
        }
    }

    /// When the next request is due, if time alone decides it.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let open = self.open_request.is_none() && self.refused.is_none();
        self.shown.as_ref().filter(|_| open).map(|shown| shown.refresh)
    }
}

#[derive(Clone, Copy)]
enum SignerAnswer {
    Denied,
    Failed,
    Issued,
}

fn answer(request: &Object) -> Option<(SignerAnswer, &Object)> {
    let conditions = request.list_at(&["status", "conditions"]).iter().filter_map(Value::as_object);
    conditions.into_iter().find_map(|condition| {
        let answer = match condition.str_at(&["type"])? {
            "Denied" => SignerAnswer::Denied,
            "Failed" => SignerAnswer::Failed,
            "Issued" => SignerAnswer::Issued,
            _ => return None,
        };
        Some((answer, condition))
    })
}

fn issued(key: Vec<u8>, request: &Object, now: Timestamp, spread: f64) -> IssuedCertificate {
    let time = |member| {
        let text = request.str_at(&["status", member]);
        text.and_then(|text| text.parse::<Timestamp>().ok()).unwrap_or(now)
    };
    let chain = request.str_at(&["status", "certificateChain"]).unwrap_or_default();
    let chain = pem::certificates(chain);
    let chain = pem::write_certificates(chain.iter().map(Vec::as_slice)).into_bytes();
    IssuedCertificate {
        bundle: CredentialBundle { key, chain },
        refresh: later(time("beginRefreshAt"), SPREAD.mul_f64(spread)),
        ends: time("notAfter"),
        reported_overdue: false,
        reported_expired: false,
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The `podCertificate` sources of a volume, each with its place among the sources.
pub fn certificates_wanted(volume: &Object) -> impl Iterator<Item = (usize, &Object)> {
    let sources = volume.list_at(&["projected", "sources"]).iter().filter_map(Value::as_object);
    sources.enumerate().filter_map(|(at, source)| Some((at, source.map_at(&["podCertificate"])?)))
}
