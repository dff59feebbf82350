//! Numbers that may be written as a percentage of another: `maxSurge`, `maxUnavailable`.

use serde_json::Value;

/// Which way a percentage is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To the next whole number below.
    Down,
    /// To the next whole number above.
    Up,
}

/// A number, or a percentage of `whole`; `None` when it is neither.
#[must_use]
pub fn of(value: &Value, whole: i64, round: Round) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let hundredfold = percent.checked_mul(whole)?;
    Some(match round {
        Round::Down => hundredfold.div_euclid(100),
        Round::Up => hundredfold.checked_add(99)?.div_euclid(100),
    })
}

#[cfg(test)]
mod tests {
    use super::{Round, of};
    use serde_json::json;

    #[test]
    fn a_share_is_a_number_or_a_percentage() {
        assert_eq!(of(&json!(3), 10, Round::Down), Some(3));
        assert_eq!(of(&json!("25%"), 10, Round::Down), Some(2));
        assert_eq!(of(&json!("25%"), 10, Round::Up), Some(3));
        assert_eq!(of(&json!("0%"), 10, Round::Up), Some(0));
        assert_eq!(of(&json!("100%"), 10, Round::Up), Some(10));
        for odd in [json!("3"), json!("x%"), json!(null), json!("9223372036854775807%")] {
            assert_eq!(of(&odd, 10, Round::Up), None);
        }
    }
}
