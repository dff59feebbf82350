//! Where a page ended: the `continue` token (R14, R15).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::Failure;

/// A place in a walk over a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision that all pages show; `None` continues at the newest (an inconsistent walk).
    pub revision: Option<Revision>,
    /// The last key of the page before, relative to the collection.
    pub after: String,
}

impl ContinueToken {
    /// The text clients carry.
    #[must_use]
    pub(crate) fn encode(&self) -> String {
        let revision = self.revision.map_or(-1, |r| i64::try_from(r.0).unwrap_or(i64::MAX));
        let text = json!({
            "v": "meta.k8s.io/v1", "rv": revision, "start": format!("{}\u{0}", self.after),
        });
        URL_SAFE_NO_PAD.encode(text.to_string())
    }

    /// Reads what a client sent back.
    pub(crate) fn decode(text: &str) -> Result<ContinueToken, Failure> {
        let bad = || Failure::bad_request("continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| bad())?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        if value.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
            return Err(bad());
        }
        let revision = match value.get("rv").and_then(Value::as_i64).ok_or_else(bad)? {
            -1 => None,
            number => Some(Revision(u64::try_from(number).map_err(|_| bad())?)),
        };
        if revision == Some(Revision::ZERO) {
            return Err(bad());
        }
        let start = value.get("start").and_then(Value::as_str).filter(|s| !s.is_empty());
        let after = start.ok_or_else(bad)?.trim_end_matches('\u{0}').to_owned();
        Ok(ContinueToken { revision, after })
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    #[test]
    fn r14_a_token_survives_its_trip() {
        let token = ContinueToken { revision: Some(Revision(7)), after: "shop/web".into() };
        assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        let newest = ContinueToken { revision: None, after: "a".into() };
        assert_eq!(ContinueToken::decode(&newest.encode()).unwrap(), newest);
    }

    #[test]
    fn r14_garbage_is_a_bad_request() {
        for text in [
            "garbage",
            "",
            "e30",
            &URL_SAFE_NO_PAD.encode("{\"v\":\"x\",\"rv\":1,\"start\":\"a\"}"),
        ] {
            assert_eq!(ContinueToken::decode(text).unwrap_err().code, 400, "{text}");
        }
    }
}
