//! How requests are authenticated beyond what every server does, and the tokens of a file (R150, `--token-auth-file`).
//!
//! ```text
//!   token,name,uid,"group,group"     a line; the groups may be left out
//! ```
//!
//! The file is read once, by whoever starts the server; nothing here opens it.

use std::collections::HashMap;
use std::sync::Arc;

use ring::digest;

use super::User;

/// How requests are authenticated.
#[derive(Clone, Debug)]
pub struct AuthenticationOptions {
    /// Who issues service-account tokens; the address of the server, where nobody says.
    pub issuer: Option<String>,
    /// Tokens that are believed for as long as the server runs.
    pub fixed_tokens: FixedTokens,
    /// Whether whoever shows nothing is answered as `system:anonymous`; else with 401.
    pub anonymous: bool,
}

impl Default for AuthenticationOptions {
    fn default() -> AuthenticationOptions {
        AuthenticationOptions {
            issuer: None,
            fixed_tokens: FixedTokens::default(),
            anonymous: true,
        }
    }
}

/// Tokens and whose they are.
#[derive(Clone, Default)]
pub struct FixedTokens {
    // By their digests, so that how long a look takes says nothing about them.
    users: HashMap<Vec<u8>, Arc<User>>,
}

impl std::fmt::Debug for FixedTokens {
    /// Names only, so that no token reaches a log.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_set().entries(self.users.values().map(|user| &user.name)).finish()
    }
}

/// Why a file of tokens cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FixedTokensError {
    /// A line has too little.
    #[error("line {line} has {columns} columns; it needs a token, a user name and a uid")]
    Columns {
        /// Which line.
        line: usize,
        /// How many it has.
        columns: usize,
    },
    /// Quotes do not match.
    #[error("a quote in line {line} is not closed, or stands in the middle of a value")]
    Quotes {
        /// Which line.
        line: usize,
    },
    /// There is no token.
    #[error("line {line} has no token or no user name")]
    Empty {
        /// Which line.
        line: usize,
    },
}

impl FixedTokens {
    /// Reads the lines of a file; of two lines with one token the last counts, as upstream.
    ///
    /// # Errors
    /// A line is not as it should be.
    pub fn read(text: &str) -> Result<FixedTokens, FixedTokensError> {
        let mut users = HashMap::new();
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        for (line, text) in lines.filter(|(_, text)| !text.is_empty()) {
            let columns = columns(text).ok_or(FixedTokensError::Quotes { line })?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                return Err(FixedTokensError::Columns { line, columns: columns.len() });
            };
            if token.is_empty() || name.is_empty() {
                return Err(FixedTokensError::Empty { line });
            }
            let groups = rest.first().map(String::as_str).unwrap_or_default();
            let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned);
            let groups = groups.chain(["system:authenticated".to_owned()]).collect();
            let user = User { name: name.clone(), uid: uid.clone(), groups, ..User::default() };
            users.insert(digest_of(token), Arc::new(user));
        }
        Ok(FixedTokens { users })
    }

    /// Whose token it is.
    pub(crate) fn find(&self, token: &str) -> Option<Arc<User>> {
        if self.users.is_empty() {
            return None;
        }
        self.users.get(&digest_of(token)).cloned()
    }
}

fn digest_of(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec()
}

/// The values between the commas of a line; one in quotes may have commas, and two quotes for one.
fn columns(line: &str) -> Option<Vec<String>> {
    let (mut columns, mut value) = (Vec::new(), String::new());
    let (mut quoted, mut closed) = (false, false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quoted) {
            ('"', true) if letters.peek() == Some(&'"') => {
                letters.next();
                value.push('"');
            }
            ('"', true) => (quoted, closed) = (false, true),
            ('"', false) if value.is_empty() && !closed => quoted = true,
            ('"', false) => return None,
            (',', false) => {
                columns.push(std::mem::take(&mut value));
                closed = false;
            }
            _ if closed => return None,
            _ => value.push(letter),
        }
    }
    columns.push(value);
    (!quoted).then_some(columns)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    #[test]
    fn r150_a_file_says_whose_tokens_are_believed() {
        let text = "t1,alice,1\n\nt2,bob,2,\"dev,ops\"\r\n\"t,\"\"3\",carol,,ops\n";
        let tokens = FixedTokens::read(text).unwrap();
        let groups = |token: &str| tokens.find(token).map(|user| user.groups.join(" "));
        assert_eq!(groups("t1").unwrap(), "system:authenticated");
        assert_eq!(groups("t2").unwrap(), "dev ops system:authenticated");
        let carol = tokens.find("t,\"3").unwrap();
        assert_eq!((carol.name.as_str(), carol.uid.as_str()), ("carol", ""));
        assert_eq!(tokens.find("t"), None);
        assert_eq!(FixedTokens::default().find(""), None);
        assert!(!format!("{tokens:?}").contains("t1"), "tokens stay out of logs");
    }

    #[test]
    fn r150_a_line_that_is_wrong_is_named() {
        for (text, wrong) in [
            ("t,alice,1\nt2,bob", FixedTokensError::Columns { line: 2, columns: 2 }),
            (",alice,1", FixedTokensError::Empty { line: 1 }),
            ("t,,1", FixedTokensError::Empty { line: 1 }),
            ("t,alice,1,\"a,b", FixedTokensError::Quotes { line: 1 }),
            ("t,al\"ice,1", FixedTokensError::Quotes { line: 1 }),
            ("\"t\"x,alice,1", FixedTokensError::Quotes { line: 1 }),
        ] {
            assert_eq!(FixedTokens::read(text).unwrap_err(), wrong, "{text}");
        }
    }
}
