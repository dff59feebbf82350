//! What webhooks answered, kept for as long as their configuration says (R154c).
//!
//! Bounded in entries and bytes: what was used longest ago goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many answers are kept, as upstream.
const ENTRIES_MAX: usize = 8_192;
/// How many bytes of questions are kept with them.
const BYTES_MAX: usize = 32 << 20;

/// Answers by the whole question.
pub(super) struct ReviewCache<T> {
    kept: Mutex<CacheEntries<T>>,
}

struct CacheEntries<T> {
    by_question: HashMap<Arc<str>, CacheEntry<T>>,
    /// By when they were last used.
    by_use: BTreeMap<u64, Arc<str>>,
    uses: u64,
    bytes: usize,
}

struct CacheEntry<T> {
    answer: T,
    until: Instant,
    used: u64,
}

impl<T> Default for ReviewCache<T> {
    fn default() -> ReviewCache<T> {
        let (by_question, by_use) = (HashMap::new(), BTreeMap::new());
        let kept = CacheEntries { by_question, by_use, uses: 0, bytes: 0 };
        ReviewCache { kept: Mutex::new(kept) }
    }
}

impl<T: Clone> ReviewCache<T> {
    /// What was answered, if that still counts.
    pub(super) fn get(&self, question: &str, now: Instant) -> Option<T> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        let entry = kept.by_question.get_mut(question)?;
        if entry.until <= now {
            kept.remove(question);
            return None;
        }
        kept.uses += 1;
        let name = kept.by_use.remove(&entry.used)?;
        entry.used = kept.uses;
        kept.by_use.insert(entry.used, name);
        Some(entry.answer.clone())
    }

    /// Keeps an answer for a while.
    pub(super) fn put(&self, question: &Arc<str>, answer: T, now: Instant, life: Duration) {
        let Some(until) = now.checked_add(life) else { return };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        kept.remove(question);
        kept.uses += 1;
        let used = kept.uses;
        kept.bytes += question.len();
        kept.by_question.insert(Arc::clone(question), CacheEntry { answer, until, used });
        kept.by_use.insert(used, Arc::clone(question));
        while kept.by_question.len() > ENTRIES_MAX || kept.bytes > BYTES_MAX {
            let Some((_, oldest)) = kept.by_use.pop_first() else { return };
            kept.remove(&oldest);
        }
    }
}

impl<T> CacheEntries<T> {
    fn remove(&mut self, question: &str) {
        if let Some((question, entry)) = self.by_question.remove_entry(question) {
            self.by_use.remove(&entry.used);
            self.bytes -= question.len();
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    const LIFE: Duration = Duration::from_secs(5);

    fn key(text: &str) -> Arc<str> {
        Arc::from(text)
    }

    #[test]
    fn r154c_an_answer_counts_for_its_time() {
        let (cache, now) = (ReviewCache::default(), Instant::now());
        cache.put(&key("a"), 1, now, LIFE);
        cache.put(&key("b"), 2, now, LIFE);
        cache.put(&key("a"), 3, now, LIFE * 2);
        assert_eq!(cache.get("a", now + LIFE), Some(3));
        assert_eq!(cache.get("b", now + LIFE), None);
        assert_eq!(cache.get("b", now), None, "what has ended is forgotten");
        assert_eq!(cache.get("c", now), None);
        cache.put(&key("d"), 4, now, Duration::MAX);
        assert_eq!(cache.get("d", now), None, "a time that no clock knows keeps nothing");
    }

    #[test]
    fn r154c_what_was_used_longest_ago_goes_first() {
        let (cache, now) = (ReviewCache::default(), Instant::now());
        for number in 0..ENTRIES_MAX {
            cache.put(&key(&number.to_string()), number, now, LIFE);
        }
        assert_eq!(cache.get("0", now), Some(0));
        cache.put(&key("one more"), 0, now, LIFE);
        assert_eq!((cache.get("0", now), cache.get("1", now)), (Some(0), None));
        assert_eq!(cache.kept.lock().unwrap().by_use.len(), ENTRIES_MAX);
    }

    #[test]
    fn r154c_long_questions_have_a_bound_together() {
        let (cache, now) = (ReviewCache::default(), Instant::now());
        for number in 0..40 {
            cache.put(&key(&format!("{number}{}", "x".repeat(1 << 20))), number, now, LIFE);
        }
        let kept = cache.kept.lock().unwrap();
        assert!(kept.bytes <= BYTES_MAX && kept.by_question.len() < 40, "{}", kept.bytes);
    }
}
