//! The certificates that one volume shows: asked for when they are due, and taken from the answers of
//! their signers (R89b to R89e).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tenure_downward::{
    CertificateNews, CredentialBundle, ProjectedCertificate, certificates_wanted,
};
use tenure_machinery::{Object, ObjectExt as _};
use tokio::sync::Mutex;

use super::Filling;
use crate::clock;
use crate::events::Grade;
use crate::pod_certificate;

/// What is known of the sources of one volume, by their place. It lives as long as the worker: an agent
/// that starts anew asks anew.
pub(super) type Certificates = Arc<Mutex<BTreeMap<usize, ProjectedCertificate>>>;

/// How long a start waits for a signer before it says that the pod waits.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// When a renewal that could not be asked for is tried again.
const ASK_AGAIN: Duration = Duration::from_secs(30);

impl Filling {
    /// The credentials of every source that shows one, and when the next is due.
    pub(super) async fn certificates(
        &self,
    ) -> (BTreeMap<usize, Result<CredentialBundle, String>>, Option<Timestamp>) {
        let mut all = self.certificates.lock().await;
        let mut failed = BTreeMap::new();
        for (at, source) in certificates_wanted(&self.volume) {
            let kept = all.entry(at).or_default();
            if let Err(why) = self.keep(kept, source).await {
                failed.insert(at, why);
            }
        }
        // Signers are quick, most of them: a pod that starts need not tell of a moment's wait. Whoever is
        // late is heard at the next turn.
        let _ = tokio::time::timeout(ANSWER_LIMIT, self.answered(&mut all)).await;
        let mut found = BTreeMap::new();
        let mut first: Option<Timestamp> = None;
        for (at, kept) in all.iter() {
            let bundle = match (kept.bundle(), failed.remove(at)) {
                (Err(_), Some(why)) => Err(why),
                // What is shown is good still; the next is asked for soon.
                (Ok(bundle), Some(_)) => {
                    let again = clock::timestamp() + ASK_AGAIN;
                    first = first.into_iter().chain([again]).min();
                    Ok(bundle)
                }
                (bundle, None) => {
                    first = first.into_iter().chain(kept.due()).min();
                    bundle
                }
            };
            found.insert(*at, bundle);
        }
        (found, first)
    }

    /// Hears what was answered, and asks if it is time.
    async fn keep(&self, kept: &mut ProjectedCertificate, source: &Object) -> Result<(), String> {
        self.hear(kept);
        if !kept.wants_request(clock::timestamp()) {
            return Ok(());
        }
        let node = self.shared.node.borrow().clone();
        let Some(node) = node else { return Err("this node is not registered yet".to_owned()) };
        let kind = source.str_at(&["keyType"]).unwrap_or_default();
        let made = pod_certificate::make_key(kind)?;
        let client = &self.shared.client;
        let asking = pod_certificate::ask(client, &self.pod, &node, source, &made.request);
        let request = Box::pin(asking).await?;
        kept.requested(made.key, &request, clock::timestamp(), self.shared.spread());
        Ok(())
    }

    /// Waits until no source waits for its first certificate.
    async fn answered(&self, all: &mut BTreeMap<usize, ProjectedCertificate>) {
        let mut news = self.shared.objects.certificate_requests.listen();
        loop {
            news.mark_unchanged();
            all.values_mut().for_each(|kept| self.hear(kept));
            let waits =
                |kept: &ProjectedCertificate| kept.pending().is_some() && kept.bundle().is_err();
            if !all.values().any(waits) || news.changed().await.is_err() {
                return;
            }
        }
    }

    fn hear(&self, kept: &mut ProjectedCertificate) {
        let now = clock::timestamp();
        if let Some(name) = kept.pending() {
            let requests = &self.shared.objects.certificate_requests;
            let request = requests.one(&self.key.namespace, name);
            let news = kept.hear(request.as_deref(), now, self.shared.spread());
            news.into_iter().for_each(|news| self.tell(news));
        }
        kept.late(now).into_iter().for_each(|news| self.tell(news));
    }

    fn tell(&self, news: CertificateNews) {
        let (reason, message) = match news {
            CertificateNews::Denied(why) => ("Denied", why),
            CertificateNews::Failed(why) => ("Failed", why),
            CertificateNews::Overdue => {
                ("CertificateOverdueForRefresh", "PodCertificate refresh overdue".to_owned())
            }
            CertificateNews::Expired => ("CertificateExpired", "PodCertificate expired".to_owned()),
        };
        self.shared.events.tell(&self.subject, Grade::Warning, reason, message);
    }
}
