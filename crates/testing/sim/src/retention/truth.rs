//! The truth of one order: users, subjects, what clients do to them, and what a commit may rest on.

use std::collections::{BTreeMap, BTreeSet};

use tenure_retention::UserKind;

use crate::random::Random;

/// Names of subjects; each is there in two namespaces.
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];
/// The namespaces.
pub(super) const PLACES: [&str; 2] = ["left", "right"];

/// What a template or pod mentions: a set of [`NAMES`] as bits.
pub(super) type Mentions = u8;

/// What clients, hosts and misfortune do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetentionOperation {
    /// A client makes a subject of a name, opted in or not.
    Subject(usize, usize, bool),
    /// A client deletes a subject.
    EndSubject(usize),
    /// A client makes a user of some kind that mentions names.
    User(usize, usize, u8),
    /// A client changes what a holder or root mentions.
    Edit(usize, u8),
    /// A client deletes a holder or root: background, foreground, orphan.
    EndUser(usize, usize),
    /// A foreground or orphan deletion goes on.
    Progress(usize),
    /// A holder's controller makes a pod, as its template is now or as it was.
    Pod(usize, Option<u8>),
    /// A pod ends.
    EndPod(usize),
    /// A client takes all owners off a subject.
    Strip(usize),
    /// A client adds an owner of its own to a subject, or ends one.
    Foreign(usize, bool),
    /// The engine hears of some changes.
    Feed(usize),
    /// The engine plans, after some milliseconds.
    Plan(u64),
    /// A write under way is carried out, fails, or is lost.
    Act(usize, usize),
    /// The engine hears what came of a write.
    Tell(usize),
    /// The collector looks at a subject.
    Collect(usize),
    /// The process dies and starts again, with the feature on or off.
    Crash(bool),
}

/// What a client does next.
pub fn client(random: &mut Random) -> RetentionOperation {
    let who = random.below(1 << 16);
    let mentions = random.below(8) as Mentions;
    match random.below(26) {
        0..=3 => RetentionOperation::Subject(
            random.below(PLACES.len()),
            random.below(3),
            !random.once_in(6),
        ),
        4 => RetentionOperation::EndSubject(who),
        5..=9 => RetentionOperation::User(random.below(PLACES.len()), random.below(7), mentions),
        10..=12 => RetentionOperation::Edit(who, mentions),
        13..=16 => RetentionOperation::EndUser(who, random.below(5)),
        17 | 18 => RetentionOperation::Progress(who),
        19 | 20 => RetentionOperation::Pod(who, random.once_in(3).then_some(mentions)),
        21..=23 => RetentionOperation::EndPod(who),
        24 => RetentionOperation::Strip(who),
        _ => RetentionOperation::Foreign(who, random.once_in(2)),
    }
}

/// What a host does next.
pub(super) fn host(random: &mut Random) -> RetentionOperation {
    let who = random.below(1 << 16);
    match random.below(20) {
        0..=4 => RetentionOperation::Feed(1 + random.below(4)),
        5..=8 => RetentionOperation::Plan([0, 10, 400, 2000][random.below(4)]),
        9..=12 => RetentionOperation::Act(who, random.below(8)),
        13..=15 => RetentionOperation::Tell(who),
        16..=18 => RetentionOperation::Collect(who),
        _ => RetentionOperation::Crash(!random.once_in(5)),
    }
}

/// What is there before every sequence of [`few`].
pub(super) fn few_at_first() -> Vec<RetentionOperation> {
    vec![RetentionOperation::Subject(0, 0, true), RetentionOperation::Subject(0, 1, true)]
}

/// The few events that sequences are made of: two subjects, three holders.
pub(super) fn few() -> Vec<RetentionOperation> {
    vec![
        RetentionOperation::User(0, 1, 0b01),
        RetentionOperation::User(0, 1, 0b11),
        RetentionOperation::User(0, 0, 0b10),
        RetentionOperation::Edit(0, 0b10),
        RetentionOperation::Edit(1, 0),
        RetentionOperation::EndUser(0, 0),
        RetentionOperation::EndUser(1, 4),
        RetentionOperation::Pod(0, None),
        RetentionOperation::EndPod(0),
        RetentionOperation::Feed(100),
        RetentionOperation::Plan(2000),
        RetentionOperation::Act(0, 0),
        RetentionOperation::Collect(0),
        RetentionOperation::Collect(1),
    ]
}

/// A holder, root or pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimulatedUser {
    pub(super) place: usize,
    pub(super) kind: UserKind,
    pub(super) uid: String,
    pub(super) mentions: Mentions,
    pub(super) terminating: bool,
    /// Whether its deletion leaves dependents behind.
    pub(super) orphans: bool,
    /// The uid of a pod's controller.
    pub(super) controller: Option<String>,
}

/// A ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimulatedConfigMap {
    pub(super) place: usize,
    pub(super) name: usize,
    pub(super) uid: String,
    pub(super) revision: u64,
    pub(super) opted_in: bool,
    /// Owner uids, and whether the engine added them.
    pub(super) entries: Vec<(String, bool)>,
    /// A client or an orphaning deletion emptied the list.
    pub(super) let_go: bool,
}

/// One change.
#[derive(Clone, Debug)]
pub(super) enum RetentionChange {
    User(SimulatedUser),
    UserGone(usize, String),
    Subject(SimulatedConfigMap),
    SubjectGone(usize, usize, String),
}

/// Everything that is, and how it came to be.
#[derive(Clone, Debug, Default)]
pub(super) struct RetentionModel {
    pub(super) users: BTreeMap<String, SimulatedUser>,
    pub(super) subjects: BTreeMap<(usize, usize), SimulatedConfigMap>,
    /// Owners of clients' own that are there.
    pub(super) foreign: BTreeSet<String>,
    pub(super) log: Vec<RetentionChange>,
    uids: u64,
}

impl RetentionModel {
    /// The revision of the last change.
    pub(super) fn revision(&self) -> u64 {
        self.log.len() as u64
    }

    pub(super) fn new_uid(&mut self) -> String {
        self.uids += 1;
        format!("{:04x}-{}", self.uids.wrapping_mul(0x9e37) & 0xffff, self.uids)
    }

    pub(super) fn put_user(&mut self, user: SimulatedUser) {
        self.users.insert(user.uid.clone(), user.clone());
        self.log.push(RetentionChange::User(user));
    }

    pub(super) fn remove_user(&mut self, uid: &str) {
        if let Some(user) = self.users.remove(uid) {
            self.log.push(RetentionChange::UserGone(user.place, user.uid));
        }
    }

    pub(super) fn put_subject(&mut self, mut subject: SimulatedConfigMap) {
        subject.revision = self.revision() + 1;
        self.subjects.insert((subject.place, subject.name), subject.clone());
        self.log.push(RetentionChange::Subject(subject));
    }

    pub(super) fn remove_subject(&mut self, at: (usize, usize)) {
        if let Some(subject) = self.subjects.remove(&at) {
            self.log.push(RetentionChange::SubjectGone(subject.place, subject.name, subject.uid));
        }
    }

    /// Whether an owner is there.
    pub(super) fn lives(&self, uid: &str) -> bool {
        self.users.contains_key(uid) || self.foreign.contains(uid)
    }

    /// Whether somebody needs a subject (I1): a living holder or root, or a pod.
    pub(super) fn needs(&self, place: usize, name: usize) -> Option<&SimulatedUser> {
        self.users.values().find(|user| {
            user.place == place
                && user.mentions & (1 << name) != 0
                && (user.kind == UserKind::Pod || !user.terminating)
        })
    }

    /// Whether somebody written after a revision mentions a subject: the guard of a deletion.
    pub(super) fn mentioned_since(&self, seen: u64, place: usize, name: usize) -> bool {
        self.log.iter().skip(seen as usize).any(|change| {
            matches!(change, RetentionChange::User(user)
                if user.place == place && user.mentions & (1 << name) != 0)
        })
    }

    /// The holders that should own a subject (section 5).
    pub(super) fn desired(&self, place: usize, name: usize) -> BTreeSet<String> {
        let living = |uid: &str| {
            self.users.get(uid).is_some_and(|user| user.kind.is_holder() && !user.terminating)
        };
        let mut desired = BTreeSet::new();
        for user in self.users.values() {
            if user.place != place || user.mentions & (1 << name) == 0 {
                continue;
            }
            let owner = match (&user.controller, user.kind) {
                (Some(controller), UserKind::Pod) => self
                    .users
                    .get(controller)
                    .filter(|holder| holder.kind != UserKind::ControllerRevision)
                    .map(|holder| holder.uid.clone()),
                _ => Some(user.uid.clone()),
            };
            desired.extend(owner.filter(|uid| living(uid)));
        }
        desired
    }

    fn pick<'a, T>(of: impl Iterator<Item = &'a T> + Clone, who: usize) -> Option<&'a T> {
        let count = of.clone().count();
        of.clone().nth(who.checked_rem(count)?)
    }

    fn template(&self, who: usize) -> Option<SimulatedUser> {
        let templates = self.users.values().filter(|user| user.kind != UserKind::Pod);
        RetentionModel::pick(templates, who).cloned()
    }

    pub(super) fn subject(&self, who: usize) -> Option<SimulatedConfigMap> {
        RetentionModel::pick(self.subjects.values(), who).cloned()
    }

    /// Does what a client does.
    pub(super) fn client(&mut self, op: &RetentionOperation) {
        match op {
            RetentionOperation::Subject(place, name, opted_in)
                if !self.subjects.contains_key(&(*place, *name)) =>
            {
                let uid = self.new_uid();
                self.put_subject(SimulatedConfigMap {
                    place: *place,
                    name: *name,
                    uid,
                    revision: 0,
                    opted_in: *opted_in,
                    entries: Vec::new(),
                    let_go: false,
                });
            }
            RetentionOperation::EndSubject(who) => {
                if let Some(subject) = self.subject(*who) {
                    self.remove_subject((subject.place, subject.name));
                }
            }
            RetentionOperation::User(place, kind, mentions) => {
                self.make_user(*place, *kind, *mentions)
            }
            RetentionOperation::Edit(who, mentions) => {
                let editable = |user: &SimulatedUser| user.kind != UserKind::ControllerRevision;
                if let Some(mut user) = self.template(*who).filter(editable) {
                    user.mentions = *mentions;
                    self.put_user(user);
                }
            }
            RetentionOperation::EndUser(who, policy) => self.end_user(*who, *policy),
            RetentionOperation::Progress(who) => self.progress(*who),
            RetentionOperation::Pod(who, was) => {
                let holder = self.template(*who).filter(|user| user.kind.is_holder());
                let Some(holder) = holder else { return };
                let uid = self.new_uid();
                self.put_user(SimulatedUser {
                    kind: UserKind::Pod,
                    uid,
                    mentions: was.unwrap_or(holder.mentions),
                    terminating: false,
                    orphans: false,
                    controller: Some(holder.uid),
                    place: holder.place,
                });
            }
            RetentionOperation::EndPod(who) => {
                let pods = self.users.values().filter(|user| user.kind == UserKind::Pod);
                if let Some(pod) = RetentionModel::pick(pods, *who).cloned() {
                    self.remove_user(&pod.uid);
                }
            }
            RetentionOperation::Strip(who) => {
                if let Some(mut subject) = self.subject(*who) {
                    subject.let_go = true;
                    subject.entries.clear();
                    self.put_subject(subject);
                }
            }
            RetentionOperation::Foreign(who, true) => {
                if let Some(mut subject) = self.subject(*who) {
                    let uid = self.new_uid();
                    self.foreign.insert(uid.clone());
                    subject.entries.insert(0, (uid, false));
                    self.put_subject(subject);
                }
            }
            RetentionOperation::Foreign(who, false) => {
                if let Some(uid) = RetentionModel::pick(self.foreign.iter(), *who).cloned() {
                    self.foreign.remove(&uid);
                }
            }
            _ => {}
        }
    }

    fn make_user(&mut self, place: usize, kind: usize, mentions: u8) {
        let kinds = [
            UserKind::ControllerRevision,
            UserKind::ReplicaSet,
            UserKind::ReplicationController,
            UserKind::DaemonSet,
            UserKind::Deployment,
            UserKind::StatefulSet,
            UserKind::Pod,
        ];
        let uid = self.new_uid();
        self.put_user(SimulatedUser {
            place,
            kind: kinds[kind],
            uid,
            mentions,
            terminating: false,
            orphans: false,
            controller: None,
        });
    }

    fn end_user(&mut self, who: usize, policy: usize) {
        let Some(mut user) = self.template(who) else { return };
        match policy {
            0..=2 => self.remove_user(&user.uid),
            _ => {
                user.terminating = true;
                user.orphans |= policy == 4;
                self.put_user(user);
            }
        }
    }

    /// A deletion that was waiting goes on: dependents are left behind first, then the object goes.
    fn progress(&mut self, who: usize) {
        let going = self.users.values().filter(|user| user.terminating);
        let Some(user) = RetentionModel::pick(going, who).cloned() else { return };
        if user.orphans {
            let has = |subject: &&SimulatedConfigMap| {
                subject.entries.iter().any(|(uid, _)| *uid == user.uid)
            };
            let left: Vec<SimulatedConfigMap> =
                self.subjects.values().filter(has).cloned().collect();
            for mut subject in left {
                subject.entries.retain(|(uid, _)| *uid != user.uid);
                subject.let_go |= subject.entries.is_empty();
                self.put_subject(subject);
            }
        }
        self.remove_user(&user.uid);
    }

    /// Ends every deletion that waits, and every pod of a holder that is gone.
    pub(super) fn run_out(&mut self) {
        while self.users.values().any(|user| user.terminating) {
            self.progress(0);
        }
        let stray =
            |user: &&SimulatedUser| user.controller.as_ref().is_some_and(|uid| !self.lives(uid));
        let stray: Vec<String> = self.users.values().filter(stray).map(|u| u.uid.clone()).collect();
        stray.iter().for_each(|uid| self.remove_user(uid));
    }
}
