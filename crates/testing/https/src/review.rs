//! A webhook for one test: it takes reviews as JSON, notes them and answers as the test says.
//!
//! What a review looks like, and what an answer says, is the test's.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use serde_json::Value;

use crate::{HttpsServer, HttpsSettings};

/// A review as it was sent.
#[derive(Clone, Debug)]
pub struct SeenReview {
    /// The body; null if it is no JSON.
    pub body: Value,
    /// Path and query.
    pub uri: String,
    /// The header `authorization`; empty without one.
    pub authorization: String,
}

/// A server of reviews, which runs until it is dropped.
#[derive(Debug)]
pub struct ReviewServer {
    /// Where it is, and whom to trust.
    pub server: HttpsServer,
    seen: Arc<Mutex<Vec<SeenReview>>>,
}

impl ReviewServer {
    /// Answers each review in this way, at once.
    pub async fn start<F>(answer: F) -> ReviewServer
    where
        F: Fn(&Value) -> Response<Bytes> + Send + Sync + 'static,
    {
        ReviewServer::answering(move |review| std::future::ready(answer(&review))).await
    }

    /// Answers each review in this way, when it likes.
    pub async fn answering<F, A>(answer: F) -> ReviewServer
    where
        F: Fn(Value) -> A + Send + Sync + 'static,
        A: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let seen: Arc<Mutex<Vec<SeenReview>>> = Arc::default();
        let noted = Arc::clone(&seen);
        let server = HttpsServer::start(HttpsSettings::default(), move |request| {
            let review = read(&request);
            let answered = answer(review.body.clone());
            lock(&noted).push(review);
            answered
        })
        .await;
        ReviewServer { server, seen }
    }

    /// Never answers.
    pub async fn hanging() -> ReviewServer {
        ReviewServer::answering(|_| std::future::pending()).await
    }

    /// All reviews so far.
    #[must_use]
    pub fn seen(&self) -> Vec<SeenReview> {
        lock(&self.seen).clone()
    }

    /// All reviews since this was asked last.
    #[must_use]
    pub fn take(&self) -> Vec<SeenReview> {
        std::mem::take(&mut *lock(&self.seen))
    }
}

fn read(request: &Request<Bytes>) -> SeenReview {
    let token = request.headers().get(AUTHORIZATION);
    SeenReview {
        body: serde_json::from_slice(request.body()).unwrap_or_default(),
        uri: request.uri().to_string(),
        authorization: token.and_then(|token| token.to_str().ok()).unwrap_or_default().to_owned(),
    }
}

fn lock(seen: &Mutex<Vec<SeenReview>>) -> MutexGuard<'_, Vec<SeenReview>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
