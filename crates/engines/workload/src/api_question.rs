//! What the API said to a question, or that it has to be asked first.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use core::cell::RefCell;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{ApiAnswers, ApiRefusal};

/// What the server says where nothing is served.
const NOTHING_SERVED: &str = "the server could not find the requested resource";

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MissingFact {
    /// The API has to be asked first.
    Unasked,
    /// It cannot be known, for this reason.
    Failed(String),
}

impl MissingFact {
    pub(crate) fn failed(why: impl Into<String>) -> MissingFact {
        MissingFact::Failed(why.into())
    }

    /// The same with words before its reason.
    pub(crate) fn because(self, words: &str) -> MissingFact {
        match self {
            MissingFact::Unasked => MissingFact::Unasked,
            MissingFact::Failed(why) => MissingFact::Failed(format!("{words}: {why}")),
        }
    }
}

/// What is known, or why it is not.
pub(crate) type Fact<T> = Result<T, MissingFact>;

/// What was answered so far, and what is still to be asked.
pub(crate) struct ApiQuestions<'a> {
    answers: &'a ApiAnswers,
    questions: RefCell<BTreeSet<String>>,
}

impl<'a> ApiQuestions<'a> {
    pub(crate) fn new(answers: &'a ApiAnswers) -> ApiQuestions<'a> {
        ApiQuestions { answers, questions: RefCell::default() }
    }

    /// What is still to be asked.
    pub(crate) fn into_questions(self) -> BTreeSet<String> {
        self.questions.into_inner()
    }

    /// The object at a path, or how the API refused it.
    pub(crate) fn read(&self, path: &str) -> Fact<Result<&'a Object, &'a ApiRefusal>> {
        static NOTHING: ApiRefusal = ApiRefusal { code: 0, message: String::new() };
        match self.answers.get(path) {
            None => {
                self.questions.borrow_mut().insert(path.to_string());
                Err(MissingFact::Unasked)
            }
            Some(Ok(Value::Object(object))) => Ok(Ok(object)),
            Some(Ok(_)) => Ok(Err(&NOTHING)),
            Some(Err(refusal)) => Ok(Err(refusal)),
        }
    }

    /// The object at a path; `what` says for people what was asked for, such as `get pods.metrics.k8s.io`.
    pub(crate) fn get(&self, path: &str, what: &str) -> Fact<&'a Object> {
        self.read(path)?.map_err(|refusal| match refusal.message.as_str() {
            "" => MissingFact::Failed(format!("the answer is no object ({what})")),
            NOTHING_SERVED => MissingFact::Failed(format!("{NOTHING_SERVED} ({what})")),
            message => MissingFact::failed(message),
        })
    }
}

/// The names of the versions of a group, the preferred one first; empty where nobody serves the group.
pub(crate) fn versions(requested: &ApiQuestions<'_>, group: &str) -> Fact<alloc::vec::Vec<String>> {
    let found = match requested.read(&format!("/apis/{group}"))? {
        Ok(found) => found,
        Err(refusal) if refusal.code == 404 => return Ok(alloc::vec::Vec::new()),
        Err(refusal) => return Err(MissingFact::failed(refusal.message.as_str())),
    };
    let preferred = found.str_at(&["preferredVersion", "version"]);
    let all = found.list_at(&["versions"]).iter();
    let all = all.filter_map(|version| version.get("version")?.as_str());
    let others = all.filter(|version| Some(*version) != preferred);
    Ok(preferred.into_iter().chain(others).map(ToString::to_string).collect())
}

/// A text as one part of a path, or as a value of a query.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
