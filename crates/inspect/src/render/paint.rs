//! Colors for terminals, or none. What a color says is always said in words as well.

use crate::finding::Level;
use crate::health::Health;
use crate::look::{Standing, Worth};

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

    pub(crate) fn standing(self, standing: Standing, text: &str) -> String {
        match standing {
            // That it lives says nothing about how it fares.
            Standing::Alive => text.to_owned(),
            Standing::Terminating | Standing::Waiting | Standing::Orphaning => self.yellow(text),
            Standing::Absent => self.red(text),
            Standing::Unread => self.faint(text),
        }
    }

    /// How an object is: by how it stands, and if it lives by how it fares.
    pub(crate) fn fares(self, standing: Standing, health: Option<Health>, text: &str) -> String {
        match (standing, health) {
            (Standing::Alive, None) => text.to_owned(),
            (Standing::Alive, Some(Health::Good)) => self.green(text),
            (Standing::Alive, Some(Health::Waiting)) => self.yellow(text),
            (Standing::Alive, Some(Health::Failing)) => self.red(text),
            (standing, _) => self.standing(standing, text),
        }
    }

    pub(crate) fn worth(self, worth: Worth, text: &str) -> String {
        match worth {
            Worth::Solid => self.faint(text),
            Worth::Waiting => self.yellow(text),
            Worth::Unread => self.faint(text),
            _ => self.red(text),
        }
    }

    pub(crate) fn level(self, level: Level) -> String {
        match level {
            Level::Warning => self.yellow("warning"),
            Level::Note => self.cyan("note"),
        }
    }
}
