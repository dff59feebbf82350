//! Facts and intents as short words: `ReplicaSet web: a b` in, `edit a +web -old` out. No test lives
//! here.

use tenure_core::Revision;
use tenure_retention::*;

pub const NAMESPACE: &str = "n";

/// An engine and a clock that stands still until it is moved.
#[derive(Clone)]
pub struct Desk {
    pub engine: RetentionEngine,
    pub now: u64,
    pub revision: u64,
}

/// A subject in words: name, owner uids; `!` before a uid marks a foreign entry.
pub type Owners<'a> = &'a [&'a str];

impl Desk {
    pub fn new() -> Desk {
        Desk::with(RetentionEngineSettings::default())
    }

    pub fn with(settings: RetentionEngineSettings) -> Desk {
        Desk { engine: RetentionEngine::new(settings), now: 10_000, revision: 0 }
    }

    pub fn user_as(&mut self, kind: UserKind, uid: &str, refs: &[&str], user: RetentionUser<'_>) {
        let references: Vec<(SubjectKind, &str)> =
            refs.iter().map(|name| (SubjectKind::ConfigMap, *name)).collect();
        let user = RetentionUser { kind, name: uid, uid, references: &references, ..user };
        self.engine.put_user(NAMESPACE, &user);
    }

    pub fn user(&mut self, kind: UserKind, uid: &str, refs: &[&str]) {
        self.user_as(kind, uid, refs, plain());
    }

    pub fn set(&mut self, uid: &str, refs: &[&str]) {
        self.user(UserKind::ReplicaSet, uid, refs);
    }

    pub fn going(&mut self, uid: &str, refs: &[&str]) {
        self.user_as(
            UserKind::ReplicaSet,
            uid,
            refs,
            RetentionUser { terminating: true, ..plain() },
        );
    }

    pub fn pod(&mut self, uid: &str, controller: Option<&str>, refs: &[&str]) {
        self.user_as(UserKind::Pod, uid, refs, RetentionUser { controller, ..plain() });
    }

    pub fn gone(&mut self, uid: &str) {
        self.engine.gone_user(NAMESPACE, uid);
    }

    /// A subject whose uid is its name.
    pub fn subject_as(&mut self, name: &str, owners: Owners<'_>, subject: RetentionSubject<'_>) {
        self.revision += 1;
        let owners: Vec<OwnerEntry<'_>> = owners
            .iter()
            .map(|uid| match uid.strip_prefix('!') {
                Some(uid) => OwnerEntry { uid, managed: false },
                None => OwnerEntry { uid, managed: true },
            })
            .collect();
        let revision = Revision(self.revision);
        let subject = RetentionSubject { name, owners: &owners, revision, ..subject };
        self.engine.put_subject(NAMESPACE, &subject);
    }

    pub fn subject(&mut self, name: &str, owners: Owners<'_>) {
        let uid = format!("uid-{name}");
        self.subject_as(name, owners, RetentionSubject { uid: &uid, ..opted_in() });
    }

    /// Plans, and takes it that nothing came of it.
    pub fn plan(&mut self) -> Vec<String> {
        let intents = self.intents();
        intents.iter().map(say).collect()
    }

    pub fn intents(&mut self) -> Vec<RetentionIntent> {
        let mut out = Vec::new();
        self.engine.plan(self.now, &mut out);
        for intent in &out {
            if let RetentionIntent::Edit { key, uid, .. }
            | RetentionIntent::Delete { key, uid, .. } = intent
            {
                self.engine.outcome(key, uid, IntentOutcome::Moved, self.now);
            }
        }
        out
    }

    pub fn ask(&mut self, name: &str) -> CollectionVerdict {
        let uid = format!("uid-{name}");
        self.engine.ask(&key(name), &uid, self.now)
    }
}

pub fn key(name: &str) -> SubjectKey {
    SubjectKey { namespace: NAMESPACE.into(), kind: SubjectKind::ConfigMap, name: name.into() }
}

pub fn plain() -> RetentionUser<'static> {
    RetentionUser {
        kind: UserKind::Pod,
        name: "",
        uid: "",
        terminating: false,
        controller: None,
        references: &[],
        pulls: &[],
    }
}

pub fn opted_in() -> RetentionSubject<'static> {
    RetentionSubject {
        kind: SubjectKind::ConfigMap,
        name: "",
        uid: "",
        revision: Revision::ZERO,
        terminating: false,
        opted_in: true,
        owners: &[],
    }
}

pub fn say(intent: &RetentionIntent) -> String {
    match intent {
        RetentionIntent::Edit { key, add, remove, .. } => {
            let mut words = format!("edit {}", key.name);
            add.iter().for_each(|named| words += &format!(" +{}", named.uid));
            remove.iter().for_each(|uid| words += &format!(" -{uid}"));
            words
        }
        RetentionIntent::Delete { key, .. } => format!("delete {}", key.name),
        RetentionIntent::Release { uid } => format!("release {uid}"),
        RetentionIntent::Report(finding) => match &finding.about {
            RetentionIssue::Held { users, count } => {
                let names: Vec<&str> = users.iter().map(|user| &*user.uid).collect();
                format!("held {} by {count}: {}", finding.key.name, names.join(" "))
            }
            RetentionIssue::Orphaned => format!("orphaned {}", finding.key.name),
            RetentionIssue::ManyOwners(count) => format!("many {} {count}", finding.key.name),
            RetentionIssue::OwnerListFull(count) => format!("full {} {count}", finding.key.name),
        },
    }
}
