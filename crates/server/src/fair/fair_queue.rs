//! Who waits, and who is next: a line for each user, and every user in turn.
//!
//! ```text
//!   shop (accounts) ─┬─ shop:web   ▪▪▪▪▪▪
//!                    └─ shop:job   ▪            next: one of shop, one of alice, one of shop, …
//!   alice ───────────── alice      ▪▪           and within shop one of web, one of job, …
//! ```
//!
//! Whoever may create service accounts could stand in many lines; so the accounts of a namespace share
//! the turn of their namespace. What waits, and for what, never lives here.

use std::collections::VecDeque;

use crate::authenticate::User;

/// How many may wait, of one user, of one owner of turns, and of all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimits {
    /// Of one user.
    pub(crate) user: usize,
    /// Of all accounts of a namespace together.
    pub(crate) owner: usize,
    /// In all.
    pub(crate) all: usize,
}

/// Whose turn something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow<'a> {
    owner: &'a str,
    user: &'a str,
}

impl<'a> Flow<'a> {
    /// The flow of a user: of its namespace, for a service account.
    pub(crate) fn of(user: &'a User) -> Flow<'a> {
        Flow::named(&user.name)
    }

    /// Who has the turn: the user, or the namespace of an account.
    pub(crate) fn owner(&self) -> &'a str {
        self.owner
    }

    /// Who it is.
    pub(crate) fn user(&self) -> &'a str {
        self.user
    }

    /// The flow of a user of this name.
    pub(crate) fn named(user: &'a str) -> Flow<'a> {
        let owner = user
            .strip_prefix("system:serviceaccount:")
            .and_then(|rest| rest.rsplit_once(':'))
            .and_then(|(_, account)| user.strip_suffix(account))
            .unwrap_or(user);
        Flow { owner, user }
    }
}

struct UserQueue<T> {
    user: Box<str>,
    waiting: VecDeque<T>,
}

struct FlowOwner<T> {
    name: Box<str>,
    lines: VecDeque<UserQueue<T>>,
    count: usize,
}

/// Everything that waits.
pub(crate) struct FairQueue<T> {
    // INVARIANT: no owner and no line is empty; the first of each has the next turn.
    owners: VecDeque<FlowOwner<T>>,
    count: usize,
    room: QueueLimits,
}

impl<T> FairQueue<T> {
    pub(crate) fn new(room: QueueLimits) -> FairQueue<T> {
        FairQueue { owners: VecDeque::new(), count: 0, room }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether there is room for one more of a user.
    pub(crate) fn has_room(&self, flow: Flow<'_>) -> bool {
        let of_owner = self.owner(flow).map_or(0, |owner| owner.count);
        let fits = of_owner < self.room.owner && self.of_user(flow) < self.room.user;
        fits && self.count < self.room.all
    }

    /// Puts something at the end of its user's line; gives it back if there is no room.
    ///
    /// Where all room is taken, somebody who waits for less than others takes the last place of the one who
    /// waits for most, which is given back instead.
    pub(crate) fn push(&mut self, flow: Flow<'_>, item: T) -> Result<(), T> {
        let of_owner = self.owner(flow).map_or(0, |owner| owner.count);
        if of_owner >= self.room.owner || self.of_user(flow) >= self.room.user {
            return Err(item);
        }
        if self.count < self.room.all {
            self.push_always(flow, item);
            return Ok(());
        }
        match self.take_from_longest(of_owner + 1) {
            Some(last) => {
                self.push_always(flow, item);
                Err(last)
            }
            None => Err(item),
        }
    }

    /// As [`FairQueue::push`], for what has its bound elsewhere.
    pub(crate) fn push_always(&mut self, flow: Flow<'_>, item: T) {
        self.count += 1;
        let at = self.owners.iter().position(|owner| *owner.name == *flow.owner);
        let owner = match at.and_then(|at| self.owners.get_mut(at)) {
            Some(owner) => owner,
            None => {
                let name = flow.owner.into();
                self.owners.push_back(FlowOwner { name, lines: VecDeque::new(), count: 0 });
                let Some(owner) = self.owners.back_mut() else { return };
                owner
            }
        };
        owner.count += 1;
        match owner.lines.iter_mut().find(|line| *line.user == *flow.user) {
            Some(line) => line.waiting.push_back(item),
            None => {
                let waiting = VecDeque::from([item]);
                owner.lines.push_back(UserQueue { user: flow.user.into(), waiting });
            }
        }
    }

    /// What has the next turn.
    pub(crate) fn next(&self) -> Option<&T> {
        self.owners.front()?.lines.front()?.waiting.front()
    }

    /// Takes what has the next turn; its user and owner go behind the others.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let mut owner = self.owners.pop_front()?;
        let mut line = owner.lines.pop_front()?;
        let item = line.waiting.pop_front()?;
        self.count -= 1;
        owner.count -= 1;
        if !line.waiting.is_empty() {
            owner.lines.push_back(line);
        }
        if !owner.lines.is_empty() {
            self.owners.push_back(owner);
        }
        Some(item)
    }

    /// Lets go of what nobody waits for any more; how many that were.
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) -> usize {
        let before = self.count;
        for owner in &mut self.owners {
            for line in &mut owner.lines {
                line.waiting.retain(&keep);
            }
            owner.lines.retain(|line| !line.waiting.is_empty());
            owner.count = owner.lines.iter().map(|line| line.waiting.len()).sum();
        }
        self.owners.retain(|owner| owner.count > 0);
        self.count = self.owners.iter().map(|owner| owner.count).sum();
        before - self.count
    }

    fn owner(&self, flow: Flow<'_>) -> Option<&FlowOwner<T>> {
        self.owners.iter().find(|owner| *owner.name == *flow.owner)
    }

    fn of_user(&self, flow: Flow<'_>) -> usize {
        let line = |owner: &FlowOwner<T>| {
            owner.lines.iter().find(|line| *line.user == *flow.user).map(|line| line.waiting.len())
        };
        self.owner(flow).and_then(line).unwrap_or_default()
    }

    /// The last in the longest line of the owner with most, if that is more than this.
    fn take_from_longest(&mut self, more_than: usize) -> Option<T> {
        let owner = self.owners.iter_mut().max_by_key(|owner| owner.count)?;
        if owner.count <= more_than {
            return None;
        }
        let line = owner.lines.iter_mut().max_by_key(|line| line.waiting.len())?;
        let last = line.waiting.pop_back()?;
        owner.lines.retain(|line| !line.waiting.is_empty());
        owner.count -= 1;
        self.count -= 1;
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    const ROOM: QueueLimits = QueueLimits { user: 3, owner: 4, all: 6 };

    fn lines(of: &[(&str, u32)]) -> FairQueue<u32> {
        let mut lines = FairQueue::new(QueueLimits { user: 100, owner: 100, all: 100 });
        for (user, item) in of {
            lines.push(Flow::named(user), *item).unwrap();
        }
        lines
    }

    fn order(mut lines: FairQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| lines.pop()).collect()
    }

    #[test]
    fn r169_every_user_has_a_turn() {
        let waiting = [("mallory", 1), ("mallory", 2), ("mallory", 3), ("alice", 10), ("bob", 20)];
        assert_eq!(order(lines(&waiting)), [1, 10, 20, 2, 3]);
    }

    #[test]
    fn r169_accounts_of_a_namespace_share_its_turn() {
        let account = |name: &str| format!("system:serviceaccount:shop:{name}");
        let (web, job) = (account("web"), account("job"));
        let waiting =
            [(&*web, 1), (&*web, 2), (&*web, 3), (&*job, 4), ("alice", 10), ("alice", 11)];
        assert_eq!(order(lines(&waiting)), [1, 10, 4, 11, 2, 3]);
        assert_eq!(Flow::named(&web).owner, "system:serviceaccount:shop:");
        assert_eq!(Flow::named("system:serviceaccount:odd").owner, "system:serviceaccount:odd");
        assert_eq!(Flow::named("alice").owner, "alice");
    }

    #[test]
    fn r169_lines_have_bounds() {
        let mut lines = FairQueue::new(ROOM);
        for item in 0..3 {
            lines.push(Flow::named("mallory"), item).unwrap();
        }
        assert_eq!(lines.push(Flow::named("mallory"), 9), Err(9), "of one user");
        for item in 10..12 {
            lines.push(Flow::named("system:serviceaccount:a:x"), item).unwrap();
            lines.push(Flow::named("system:serviceaccount:b:y"), item).unwrap_or_default();
        }
        assert_eq!(lines.len(), 6);
        // There is no more room, and still a newcomer finds some: the one who waits for most gives way.
        let mut full = FairQueue::new(ROOM);
        for (user, item) in [("m", 1), ("m", 2), ("m", 3), ("n", 4), ("n", 5), ("n", 6)] {
            full.push(Flow::named(user), item).unwrap();
        }
        assert!(matches!(full.push(Flow::named("alice"), 7), Err(3 | 6)));
        assert_eq!(full.len(), 6);
        assert!(order(full).contains(&7));
    }

    #[test]
    fn what_nobody_waits_for_leaves_no_line() {
        let mut lines = lines(&[("a", 1), ("a", 2), ("b", 3)]);
        assert_eq!(lines.retain(|item| *item == 2), 2);
        assert_eq!((lines.len(), lines.owners.len()), (1, 1));
        assert_eq!(lines.pop(), Some(2));
        assert_eq!(lines.pop(), None);
        assert!(lines.owners.is_empty());
    }
}
