//! Consumers and subjects: what each user and group would be allowed to follow.
//!
//! Rights are pairs of a source in force and a class. They are made from consumers and sources alone, so that
//! neither a new class, nor a change of a consumer, nor the end of a strategy walks over edges (R174).

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::event::{Outputs, ReferenceApiKind};
use crate::index::Index;
use crate::model::{Class, Consumer};
use crate::view::{ANY, Capability, UNPARTITIONED, UNSET, ViewChange};

/// A consumer, with its triples and classes as numbers.
#[derive(Clone, Debug)]
pub(crate) struct KeptConsumer {
    pub(crate) consumer: Consumer,
    pub(crate) triples: Vec<u32>,
    /// What it accepts beside the unpartitioned (R55).
    pub(crate) classes: Vec<u32>,
}

impl Index {
    pub(crate) fn put_consumer(&mut self, mut consumer: Consumer, out: &mut Outputs) {
        self.forget_unusable(ReferenceApiKind::Consumer, "", &consumer.name);
        self.select_classes(&mut consumer);
        let (name, selects) = (consumer.name.clone(), consumer.class_selector.is_some());
        self.replace_consumer(consumer, out);
        if self.keep_classifying(&name, selects) {
            self.look_out(out);
        }
    }

    /// A consumer, and the classes it selects, as they now are.
    pub(crate) fn replace_consumer(&mut self, consumer: Consumer, out: &mut Outputs) {
        if self.consumers.get(&consumer.name).is_some_and(|kept| kept.consumer == consumer) {
            return;
        }
        let triples = consumer.references.iter().map(|triple| self.words.hold_triple(triple));
        let triples = triples.collect();
        let classes = consumer.class_names.iter().map(|class| match class.as_str() {
            "*" => ANY,
            "" => UNSET,
            name => self.words.hold_class(Class::Named(name)),
        });
        let mut classes: Vec<u32> = classes.collect();
        // Whatever a class object is called, it is a name and no pattern.
        let selected = consumer.class_selector.iter().flat_map(|selector| &selector.selected);
        classes.extend(selected.map(|name| self.words.hold_class(Class::Named(name))));
        let subject = subject_key(&consumer);
        let name = consumer.name.clone();
        let kept = KeptConsumer { consumer, triples, classes };
        let before = self.consumers.insert(name.clone(), kept);
        let before = before.map(|before| self.let_go(before));
        if let Some(old) = before.filter(|old| *old != subject) {
            self.unlink(&old, &name);
            self.refresh_rights(&old, out);
        }
        self.subjects.entry(subject.clone()).or_default().insert(name);
        self.refresh_rights(&subject, out);
    }

    pub(crate) fn drop_consumer(&mut self, name: &str, out: &mut Outputs) {
        self.forget_unusable(ReferenceApiKind::Consumer, "", name);
        let Some(before) = self.consumers.remove(name) else { return };
        let subject = self.let_go(before);
        self.unlink(&subject, name);
        self.refresh_rights(&subject, out);
        if self.keep_classifying(name, false) {
            self.look_out(out);
        }
    }

    /// Releases what a consumer held; whose it was.
    fn let_go(&mut self, kept: KeptConsumer) -> (bool, String) {
        kept.triples.iter().for_each(|triple| self.words.release_triple(*triple));
        let named = kept.classes.iter().filter(|class| **class != ANY);
        named.for_each(|class| self.words.release_class(*class));
        subject_key(&kept.consumer)
    }

    fn unlink(&mut self, subject: &(bool, String), consumer: &str) {
        if let Some(consumers) = self.subjects.get_mut(subject) {
            consumers.remove(consumer);
            if consumers.is_empty() {
                self.subjects.remove(subject);
            }
        }
    }

    /// Makes the rights of a subject anew, from all its consumers (R60).
    fn refresh_rights(&mut self, subject: &(bool, String), out: &mut Outputs) {
        let names = self.subjects.get(subject).into_iter().flatten();
        let consumers = names.filter_map(|name| self.consumers.get(name));
        let mut rights: Vec<Capability> = Vec::new();
        for kept in consumers {
            for source in kept.triples.iter().flat_map(|triple| self.open_sources(*triple)) {
                rights.push((source, UNPARTITIONED));
                rights.extend(kept.classes.iter().map(|class| (source, *class)));
            }
        }
        rights.sort_unstable();
        rights.dedup();
        let (is_group, name) = subject;
        if *rights == *self.view().rights(*is_group, name) {
            return;
        }
        out.subjects.push(subject.clone());
        let (name, rights) = (name.as_str().into(), rights.into_boxed_slice());
        self.step(if *is_group {
            ViewChange::Group(name, rights)
        } else {
            ViewChange::User(name, rights)
        });
    }

    pub(crate) fn refresh_all_rights(&mut self, out: &mut Outputs) {
        let subjects: Vec<(bool, String)> = self.subjects.keys().cloned().collect();
        subjects.iter().for_each(|subject| self.refresh_rights(subject, out));
    }

    /// A type of origins was seen to the end, or is no longer seen.
    pub(crate) fn refresh_rights_of_type(&mut self, resource: u32, out: &mut Outputs) {
        self.refresh_rights_where(
            |index, triple| index.words.origin_of(triple) == Some(resource),
            out,
        );
    }

    /// Sources of these triples have come into force, or are in force no longer.
    pub(crate) fn refresh_rights_of_triples(&mut self, triples: &BTreeSet<u32>, out: &mut Outputs) {
        if !triples.is_empty() {
            self.refresh_rights_where(|_, triple| triples.contains(&triple), out);
        }
    }

    fn refresh_rights_where(&mut self, of: impl Fn(&Index, u32) -> bool, out: &mut Outputs) {
        let reads = |kept: &&KeptConsumer| kept.triples.iter().any(|triple| of(self, *triple));
        let consumers = self.consumers.values().filter(reads);
        let mut subjects: Vec<(bool, String)> =
            consumers.map(|kept| subject_key(&kept.consumer)).collect();
        subjects.sort_unstable();
        subjects.dedup();
        subjects.iter().for_each(|subject| self.refresh_rights(subject, out));
    }
}

pub(crate) fn subject_key(consumer: &Consumer) -> (bool, String) {
    (consumer.subject.is_group(), consumer.subject.request_name())
}
