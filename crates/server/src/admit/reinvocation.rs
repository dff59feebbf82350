//! Who is asked a second time, when somebody changed the object after them (R161).

use std::collections::BTreeSet;

use tenure_machinery::Object;

/// What is known after the first round about those who change objects.
///
/// Policies and webhooks each have one of their own; whether there is a second round is for both together.
#[derive(Default)]
pub(crate) struct Reinvocation {
    /// Whether this is the second round.
    again: bool,
    /// Those that want to be asked again and have been asked since the last change.
    previous: BTreeSet<String>,
    /// Those whose object somebody changed since.
    outdated: BTreeSet<String>,
    /// Whether anybody changed the object.
    changed: bool,
    /// What the last of them left.
    left: Option<Object>,
}

impl Reinvocation {
    /// Begins a round with the object as it is now.
    pub(crate) fn begin(&mut self, object: &Object) {
        // The cluster itself may have changed it between the rounds.
        if self.again && self.left.as_ref() != Some(object) {
            self.outdate();
        }
    }

    /// Ends a round; the next is the second.
    pub(crate) fn end(&mut self, object: &Object) {
        self.again = true;
        if !self.previous.is_empty() {
            self.left = Some(object.clone());
        }
    }

    /// From now on it is the second round, whoever was asked in the first.
    pub(crate) fn again(&mut self) {
        self.again = true;
    }

    /// Whether somebody is asked in this round.
    pub(crate) fn invokes(&self, who: &str) -> bool {
        !self.again || self.outdated.contains(who)
    }

    /// Which round this is, counted from zero.
    pub(crate) fn round(&self) -> usize {
        usize::from(self.again)
    }

    /// Somebody was asked; `wants` says whether they want to be asked again.
    pub(crate) fn note(&mut self, who: &str, wants: bool, changed: bool) {
        if changed {
            self.changed = true;
            self.outdate();
        }
        if wants {
            self.previous.insert(who.to_owned());
        }
    }

    /// Whether anybody changed the object, so that there is a second round.
    pub(crate) fn is_needed(&self) -> bool {
        self.changed
    }

    /// Asks all who want to be asked again.
    pub(crate) fn outdate(&mut self) {
        self.outdated.append(&mut self.previous);
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    fn object(text: &str) -> Object {
        Object::from_iter([("a".to_owned(), text.into())])
    }

    #[test]
    fn r161_who_was_asked_before_a_change_is_asked_again_if_it_wants_to() {
        let mut rounds = Reinvocation::default();
        rounds.begin(&object("1"));
        for (who, wants, changed) in [("a", true, false), ("b", false, true), ("c", true, false)] {
            assert!(rounds.invokes(who));
            rounds.note(who, wants, changed);
        }
        rounds.end(&object("2"));
        assert!(rounds.is_needed());
        rounds.begin(&object("2"));
        let again: Vec<&str> =
            ["a", "b", "c"].into_iter().filter(|who| rounds.invokes(who)).collect();
        assert_eq!(again, ["a"], "c saw the change already, b does not want to");
    }

    #[test]
    fn r161_what_the_cluster_changes_between_the_rounds_counts() {
        let mut rounds = Reinvocation::default();
        rounds.begin(&object("1"));
        rounds.note("a", true, true);
        rounds.end(&object("2"));
        rounds.begin(&object("3"));
        assert!(rounds.invokes("a"));
    }

    #[test]
    fn r161_without_a_change_there_is_no_second_round() {
        let mut rounds = Reinvocation::default();
        rounds.begin(&object("1"));
        rounds.note("a", true, false);
        rounds.end(&object("1"));
        assert!(!rounds.is_needed());
    }
}
