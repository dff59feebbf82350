//! Which version of Kubernetes a server is of, which decides what it can be given.

use std::fmt;
use std::str::FromStr;

/// Major and minor version of an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl ServerVersion {
    /// The first with everything that is installed for features without policies.
    pub const OLDEST: ServerVersion = ServerVersion { major: 1, minor: 25 };
    /// The first with ValidatingAdmissionPolicy in `v1`.
    pub const VALIDATING_POLICIES: ServerVersion = ServerVersion { major: 1, minor: 30 };
    /// The first with a stable AuthorizationConfiguration.
    pub const AUTHORIZATION_CONFIG: ServerVersion = ServerVersion { major: 1, minor: 32 };
    /// The first whose AuthorizationConfiguration can turn caches off.
    pub const AUTHORIZATION_CACHE_SWITCHES: ServerVersion = ServerVersion { major: 1, minor: 34 };
    /// The first with MutatingAdmissionPolicy in `v1`.
    pub const MUTATING_POLICIES: ServerVersion = ServerVersion { major: 1, minor: 36 };
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

/// A text that is no version of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no version of Kubernetes, such as `1.36` or `v1.36.2`")]
pub struct UnreadableVersion(String);

impl FromStr for ServerVersion {
    type Err = UnreadableVersion;

    /// Reads `1.36`, `v1.36.2`, and what distributions make of them: `1.36+`, `v1.36.2-gke.1`.
    fn from_str(text: &str) -> Result<ServerVersion, UnreadableVersion> {
        let wrong = || UnreadableVersion(text.to_owned());
        let rest = text.strip_prefix('v').unwrap_or(text);
        let (major, rest) = rest.split_once('.').ok_or_else(wrong)?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (minor, rest) = rest.split_at_checked(end).ok_or_else(wrong)?;
        if !(rest.is_empty() || rest.starts_with(['.', '+', '-'])) {
            return Err(wrong());
        }
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten().ok_or_else(wrong)
        };
        Ok(ServerVersion { major: number(major)?, minor: number(minor)? })
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/attach.md.
    use super::*;

    #[test]
    fn a1_versions_are_read_as_servers_and_people_write_them() {
        let wanted = ServerVersion { major: 1, minor: 36 };
        for text in ["1.36", "v1.36", "v1.36.2", "1.36+", "v1.36.2-gke.1", "v1.36.0+k3s1"] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        for text in ["", "1", "1.", "x.36", "1.x", "1.36x", "+1.36", "1.+36", "1.99999999999"] {
            let problem = text.parse::<ServerVersion>().unwrap_err().to_string();
            assert!(problem.starts_with(&format!("`{text}` is no version")), "{problem}");
        }
        assert!("1.9".parse::<ServerVersion>().unwrap() < ServerVersion::MUTATING_POLICIES);
        assert!("2.0".parse::<ServerVersion>().unwrap() > ServerVersion::MUTATING_POLICIES);
    }
}
