//! Rules in words: a number alone tells nobody anything. Where each is written down is told beside it.

/// The specification that rules without a name are from.
const OWNERSHIP: &str = "ownership";

/// A rule with its words and where to read it, such as
/// `R104: an owner in foreground deletion goes … (spec/ownership.md)`.
pub(super) fn describe(rule: &str) -> String {
    let (place, number) = rule.split_once(' ').unwrap_or((OWNERSHIP, rule));
    match words(place, number) {
        Some(words) => format!("{number}: {words} (spec/{place}.md)"),
        None => format!("{number} of spec/{place}.md"),
    }
}

fn words(place: &str, number: &str) -> Option<&'static str> {
    Some(match (place, number) {
        (OWNERSHIP, "R13") => "an owner in another namespace does not count",
        (OWNERSHIP, "R16") => "an object outside of namespaces cannot be owned by one inside",
        (OWNERSHIP, "R52") => "a pod is given time to end",
        (OWNERSHIP, "R75") => "what is being deleted goes with its last finalizer",
        (OWNERSHIP, "R76") => "while a grace period runs, an object stays without finalizers too",
        (OWNERSHIP, "R84") => "an owner counts only under its kind, name and uid",
        (OWNERSHIP, "R86") => "where one reference cannot be judged, nothing is done",
        (OWNERSHIP, "R89") => "an object with a living owner is kept",
        (OWNERSHIP, "R90") => "with a living owner, references to others are dropped",
        (OWNERSHIP, "R91") => {
            "what an owner waits for and has dependents itself goes in the foreground"
        }
        (OWNERSHIP, "R92") => "what no owner holds is deleted",
        (OWNERSHIP, "R93") => "what has no owner is never collected",
        (OWNERSHIP, "R100") => "finalizers of others hold an object and all that depends on it",
        (OWNERSHIP, "R101") => "objects that own one another keep one another",
        (OWNERSHIP, "R104") => "a foreground deletion ends when no dependent blocks it any more",
        (OWNERSHIP, "R105") => "a ring in foreground deletion is opened",
        (OWNERSHIP, "R114") => "orphans lose their reference before the owner goes",
        (OWNERSHIP, "R115") => "an owner goes when all orphans are let go",
        (OWNERSHIP, "R151") => "three namespaces cannot be deleted",
        (OWNERSHIP, "R157") => "a namespace goes when nothing is inside it any more",
        ("retention", "R26") => "every revision that mentions an object becomes its owner",
        ("retention", "R33") => "a revision that leaves the history lets go of what it held",
        ("referential-authorization", "R40") => "strategy, grant and consumer must fit together",
        ("referential-authorization", "R42") => "who reads everything by roles gains nothing here",
        ("referential-authorization", "R64") => "who writes an origin chooses what is read",
        ("referential-authorization", "R65") => "a consumer must not write its own origins",
        ("referential-authorization", "R83") => "what cannot be understood grants nothing",
        ("referential-authorization", "R133") => "a grant that covers no reference is unused",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_that_is_told_has_words() {
        let sources = [
            include_str!("../audit.rs"),
            include_str!("../why.rs"),
            include_str!("../plan.rs"),
            include_str!("../retention.rs"),
        ];
        let mut found = 0;
        for source in sources {
            for text in source.split('"').filter(|text| !text.contains('\n')) {
                let number = text.strip_prefix("retention ").unwrap_or(text);
                let digits = number.strip_prefix('R').unwrap_or_default();
                if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    found += 1;
                    assert!(describe(text).contains(": "), "{text}");
                }
            }
        }
        assert!(found > 15, "{found}");
        let doctor = include_str!("../access/doctor.rs");
        for text in doctor.split('"').filter(|text| text.len() < 5 && text.starts_with('R')) {
            assert!(
                describe(&format!("referential-authorization {text}")).contains(": "),
                "{text}"
            );
        }
    }
}
