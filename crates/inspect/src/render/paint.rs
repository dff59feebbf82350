//! Colors for terminals, or none. What a color says is always said in words as well.

use crate::finding::Severity;
use crate::health::Health;
use crate::ownership_analysis::{LifecycleState, OwnerStatus};

/// How text is colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Not at all.
    Plain,
    /// With the colors of a terminal.
    Colored,
}

impl Paint {
    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Paint::Plain => text.to_owned(),
            Paint::Colored if text.is_empty() => String::new(),
            Paint::Colored => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }

    pub(crate) fn lifecycle_state(self, state: LifecycleState, text: &str) -> String {
        match state {
            // That it lives says nothing about how it fares.
            LifecycleState::Alive => text.to_owned(),
            LifecycleState::Terminating | LifecycleState::Waiting | LifecycleState::Orphaning => {
                self.yellow(text)
            }
            LifecycleState::Absent => self.red(text),
            LifecycleState::Unread => self.faint(text),
        }
    }

    /// How an object is: by how it stands, and if it lives by how it fares.
    pub(crate) fn fares(self, state: LifecycleState, health: Option<Health>, text: &str) -> String {
        match (state, health) {
            (LifecycleState::Alive, None) => text.to_owned(),
            (LifecycleState::Alive, Some(Health::Good)) => self.green(text),
            (LifecycleState::Alive, Some(Health::Waiting)) => self.yellow(text),
            (LifecycleState::Alive, Some(Health::Failing)) => self.red(text),
            (state, _) => self.lifecycle_state(state, text),
        }
    }

    pub(crate) fn worth(self, worth: OwnerStatus, text: &str) -> String {
        match worth {
            OwnerStatus::Solid => self.faint(text),
            OwnerStatus::Waiting => self.yellow(text),
            OwnerStatus::Unread => self.faint(text),
            _ => self.red(text),
        }
    }

    pub(crate) fn level(self, level: Severity) -> String {
        match level {
            Severity::Warning => self.yellow("warning"),
            Severity::Note => self.cyan("note"),
        }
    }
}
