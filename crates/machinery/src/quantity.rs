//! Quantities: `100m`, `1Gi`, `1e3`; read exactly, compared, written back in canonical form.
//!
//! Amounts are whole counts of a billionth, in 128 bits; what is finer is rounded away from zero, what
//! is larger is capped. Which resources exist and what they may cost never lives here.

use core::cmp::Ordering;

use serde_json::Value;

/// How a quantity was written, which decides how it is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityFormat {
    /// `1k`, `100m`, plain numbers.
    Decimal,
    /// `1Ki`.
    Binary,
    /// `1e3`.
    Exponent,
}

/// An amount, and how it was written.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    format: QuantityFormat,
}

const NANO: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Quantity {
    /// Nothing at all.
    pub const ZERO: Quantity = Quantity { nano: 0, format: QuantityFormat::Decimal };

    /// Reads a quantity; `None` when the text is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Quantity> {
        Some(Scanned::read(text)?.quantity())
    }

    /// Reads a quantity from a JSON text or number.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Quantity> {
        match value {
            Value::String(text) => Quantity::parse(text.trim()),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        }
    }

    /// A whole number of units.
    #[must_use]
    pub fn from_units(units: i64) -> Quantity {
        Quantity { nano: i128::from(units).saturating_mul(NANO), format: QuantityFormat::Decimal }
    }

    /// Whether it is less than nothing.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it is a whole number of units.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// In units, rounded away from zero and capped.
    #[must_use]
    pub fn value(self) -> i64 {
        capped(away(self.nano, NANO))
    }

    /// In thousandths, rounded away from zero and capped.
    #[must_use]
    pub fn milli(self) -> i64 {
        capped(away(self.nano, 1_000_000))
    }

    /// The same amount in whole thousandths, rounded away from zero.
    #[must_use]
    pub fn rounded_to_milli(self) -> Quantity {
        let nano = away(self.nano, 1_000_000).saturating_mul(1_000_000);
        Quantity { nano, format: self.format }
    }

    /// The sum, written like the first unless that is zero.
    #[must_use]
    pub fn plus(self, other: Quantity) -> Quantity {
        let format = if self.is_zero() { other.format } else { self.format };
        Quantity { nano: self.nano.saturating_add(other.nano), format }
    }

    /// The difference, written like the first.
    #[must_use]
    pub fn minus(self, other: Quantity) -> Quantity {
        Quantity { nano: self.nano.saturating_sub(other.nano), format: self.format }
    }

    /// The product with a whole number.
    #[must_use]
    pub fn times(self, factor: i64) -> Quantity {
        Quantity { nano: self.nano.saturating_mul(i128::from(factor)), format: self.format }
    }

    /// The product with another amount.
    #[must_use]
    pub fn multiplied(self, other: Quantity) -> Quantity {
        Quantity { nano: self.nano.saturating_mul(other.nano) / NANO, format: self.format }
    }

    /// Whether it is more than `ratio` times as much as another.
    #[must_use]
    pub fn exceeds_ratio(self, other: Quantity, ratio: Quantity) -> bool {
        self.nano.saturating_mul(NANO) > other.nano.saturating_mul(ratio.nano)
    }

    /// The canonical text: no fraction, the largest suffix of the family that stays exact.
    #[must_use]
    pub fn canonical(self) -> String {
        if self.nano == 0 {
            return "0".to_owned();
        }
        let small = self.nano.unsigned_abs() < 1024 * NANO.unsigned_abs();
        if self.format == QuantityFormat::Binary && !small && self.is_whole() {
            return binary_text(self.nano / NANO);
        }
        let exponent = if self.format == QuantityFormat::Exponent { i32::MAX } else { 18 };
        let (number, power) = thousands(self.nano, exponent);
        if self.format == QuantityFormat::Exponent {
            return if power == 0 { number.to_string() } else { format!("{number}e{power}") };
        }
        let suffix = DECIMAL.iter().find(|(_, p)| *p == power).map_or("", |(s, _)| *s);
        format!("{number}{suffix}")
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nano == other.nano
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

/// The text that the API writes for what a client wrote; `None` when it is no quantity.
///
/// Texts that are as short as they can be are kept letter by letter, which lets `1.500` stand.
#[must_use]
pub fn canonical(text: &str) -> Option<String> {
    let scanned = Scanned::read(text)?;
    if scanned.stands_as_written() {
        return Some(text.to_owned());
    }
    Some(scanned.quantity().canonical())
}

/// As [`canonical`], but what is finer than a thousandth is rounded up, as resource lists are.
#[must_use]
pub fn canonical_milli(text: &str) -> Option<String> {
    let scanned = Scanned::read(text)?;
    if scanned.stands_as_written() && scanned.scale().is_none_or(|scale| scale >= -3) {
        return Some(text.to_owned());
    }
    Some(scanned.quantity().rounded_to_milli().canonical())
}

/// A text taken apart: sign, digits, suffix.
struct Scanned<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: Suffix,
}

#[derive(Clone, Copy)]
enum Suffix {
    Decimal(i32),
    Exponent(i32),
    Binary(u32),
}

impl<'a> Scanned<'a> {
    fn read(text: &'a str) -> Option<Scanned<'a>> {
        if text.is_empty() {
            return None;
        }
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let rest = rest.trim_start_matches('0');
        let (whole, rest) = digits(rest);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        let suffix = Suffix::read(rest)?;
        let whole = if whole.is_empty() { "0" } else { whole };
        Some(Scanned { negative, whole, fraction, suffix })
    }

    /// The power of ten of the last digit, where the number is small enough to be held exactly.
    fn scale(&self) -> Option<i32> {
        let length = self.whole.len().saturating_add(self.fraction.len());
        match self.suffix {
            Suffix::Decimal(power) | Suffix::Exponent(power) => {
                let scale = power.saturating_sub(i32::try_from(self.fraction.len()).ok()?);
                (length <= 18 && scale >= -9).then_some(scale)
            }
            Suffix::Binary(power) => {
                let room = self.fraction.is_empty()
                    && length.saturating_add(power as usize * 3 / 10) <= 14;
                room.then_some(0)
            }
        }
    }

    fn stands_as_written(&self) -> bool {
        let Some(scale) = self.scale() else { return false };
        match self.suffix {
            Suffix::Binary(_) => self.mantissa() & 7 != 0,
            Suffix::Decimal(_) | Suffix::Exponent(_) => {
                let digits = format!("{}{}", self.whole, self.fraction);
                scale % 3 == 0 && !digits.ends_with("000") && !self.whole.starts_with('0')
            }
        }
    }

    /// All digits as one number, capped.
    fn mantissa(&self) -> i128 {
        let digits = self.whole.bytes().chain(self.fraction.bytes());
        digits.fold(0_i128, |sum, digit| {
            sum.saturating_mul(10).saturating_add(i128::from(digit.saturating_sub(b'0')))
        })
    }

    fn quantity(&self) -> Quantity {
        // Digits beyond the thirty-fifth would overflow; they are far below a billionth or far
        // above any resource, so dropping them from the fraction loses nothing but a rounding.
        let keep = 35_usize.saturating_sub(self.whole.len()).min(self.fraction.len());
        let (fraction, dropped) = self.fraction.split_at_checked(keep).unwrap_or(("", ""));
        let trimmed = Scanned { fraction, ..*self };
        let mut mantissa = trimmed.mantissa();
        if mantissa == 0 && dropped.bytes().any(|digit| digit != b'0') {
            mantissa = 1;
        }
        let shift = -i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let (nano, format) = match self.suffix {
            Suffix::Decimal(power) => {
                (scaled(mantissa, shift.saturating_add(power)), QuantityFormat::Decimal)
            }
            Suffix::Exponent(power) => {
                (scaled(mantissa, shift.saturating_add(power)), QuantityFormat::Exponent)
            }
            Suffix::Binary(power) => {
                let whole = mantissa.saturating_mul(1_i128.checked_shl(power).unwrap_or(i128::MAX));
                let nano = scaled(whole, shift).min(i128::from(i64::MAX).saturating_mul(NANO));
                let format =
                    if nano < NANO { QuantityFormat::Decimal } else { QuantityFormat::Binary };
                (nano, format)
            }
        };
        Quantity { nano: if self.negative { -nano } else { nano }, format }
    }
}

impl Suffix {
    fn read(text: &str) -> Option<Suffix> {
        if let Some((_, power)) = DECIMAL.iter().find(|(suffix, _)| *suffix == text) {
            return Some(Suffix::Decimal(*power));
        }
        if let Some((_, power)) = BINARY.iter().find(|(suffix, _)| *suffix == text) {
            return Some(Suffix::Binary(*power));
        }
        let power = text.strip_prefix(['e', 'E'])?;
        let power = power.parse::<i64>().ok()?.clamp(-1000, 1000);
        i32::try_from(power).ok().map(Suffix::Exponent)
    }
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// `mantissa` × 10^`power` in billionths, rounded up, capped.
fn scaled(mantissa: i128, power: i32) -> i128 {
    let power = power.saturating_add(9);
    if mantissa == 0 {
        return 0;
    }
    match ten_to(power.unsigned_abs()) {
        Some(factor) if power >= 0 => mantissa.saturating_mul(factor),
        Some(factor) => away(mantissa, factor),
        None if power >= 0 => i128::MAX,
        None => 1,
    }
}

fn ten_to(power: u32) -> Option<i128> {
    10_i128.checked_pow(power)
}

/// The quotient, rounded away from zero.
fn away(amount: i128, unit: i128) -> i128 {
    let quotient = amount.checked_div(unit).unwrap_or(0);
    let exact = amount.checked_rem(unit).unwrap_or(0) == 0;
    if exact { quotient } else { quotient.saturating_add(amount.signum()) }
}

fn capped(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

/// The number and the power of ten, a multiple of three of at most `most`, that give the amount.
fn thousands(nano: i128, most: i32) -> (i128, i32) {
    let (mut number, mut power) = (nano, -9);
    while power < most.saturating_sub(2) && number % 1000 == 0 && number != 0 {
        number /= 1000;
        power += 3;
    }
    (number, power)
}

fn binary_text(units: i128) -> String {
    let (mut number, mut suffix) = (units, "");
    for (next, _) in BINARY {
        if number % 1024 != 0 {
            break;
        }
        number /= 1024;
        suffix = next;
    }
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    //! R138 of spec/api-server.md asks that quantities are rounded up to milli.

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn r138_canonical_text_keeps_the_family() {
        for (text, want) in [
            ("1024Mi", "1Gi"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1.5Gi", "1536Mi"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("0.500", "500m"),
            ("100", "100"),
            ("1000", "1k"),
            ("1000000", "1M"),
            ("1000k", "1M"),
            ("1e3", "1e3"),
            ("1000e3", "1e6"),
            ("12E", "12E"),
            ("0Mi", "0"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("0.0005Ki", "512m"),
            ("8Gi", "8Gi"),
            ("1025Mi", "1025Mi"),
            ("-1000m", "-1"),
            ("1.", "1."),
            ("0.1n", "1n"),
            ("100000Ei", "9223372036854775807"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(want), "{text}");
        }
    }

    #[test]
    fn r138_resource_lists_round_up_to_milli() {
        for (text, want) in
            [("1n", "1m"), ("0.0015", "2m"), ("1.000500", "1001m"), ("1.5Gi", "1536Mi"), ("1", "1")]
        {
            assert_eq!(canonical_milli(text).as_deref(), Some(want), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_quantities() {
        for text in ["", "1x", "1 Gi", "one", "1e", "1ki", "1KI", "1.2.3", "1e1.5", " 1", "--1"] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn amounts_are_rounded_away_from_zero() {
        let quantity = Quantity::parse("1001u").unwrap();
        assert_eq!((quantity.milli(), quantity.value()), (2, 1));
        assert_eq!(Quantity::parse("-1001u").unwrap().milli(), -2);
        assert_eq!(Quantity::parse("1e500").unwrap().value(), i64::MAX);
        assert!(Quantity::parse("1e-500").unwrap() > Quantity::ZERO);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,40}") {
            let _ = canonical(&text);
            let _ = canonical_milli(&text);
        }

        #[test]
        fn canonical_text_means_the_same(text in "[+-]?[0-9]{1,25}(\\.[0-9]{0,25})?(n|u|m||k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,3})") {
            let first = Quantity::parse(&text).unwrap();
            let written = canonical(&text).unwrap();
            // Amounts at the cap cannot be written in all digits and read back.
            prop_assume!(first.nano.unsigned_abs() < 1 << 120);
            prop_assert_eq!(Quantity::parse(&written), Some(first));
            let twice = canonical(&written).unwrap();
            prop_assert_eq!(&twice, &written);
        }

        #[test]
        fn order_follows_the_amount(a in -1_000_000_i64..1_000_000, b in -1_000_000_i64..1_000_000) {
            let left = Quantity::parse(&format!("{a}m")).unwrap();
            let right = Quantity::parse(&format!("{b}000u")).unwrap();
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            prop_assert_eq!(left.plus(right).milli(), a + b);
        }
    }
}
