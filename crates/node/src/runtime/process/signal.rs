//! Signals by name, as pods and images write them.

/// Names and numbers on Linux.
const NAMES: [(&str, i32); 31] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`, `SIGRTMAX-1`.
pub(super) fn number(name: &str) -> Option<i32> {
    let short = name.strip_prefix("SIG").unwrap_or(name);
    if let Ok(number) = short.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    if let Some(above) = short.strip_prefix("RTMIN") {
        let more: i32 = if above.is_empty() { 0 } else { above.strip_prefix('+')?.parse().ok()? };
        return Some(34 + more).filter(|number| (34..=64).contains(number));
    }
    if let Some(below) = short.strip_prefix("RTMAX") {
        let less: i32 = if below.is_empty() { 0 } else { below.strip_prefix('-')?.parse().ok()? };
        return Some(64 - less).filter(|number| (34..=64).contains(number));
    }
    NAMES.iter().find(|(known, _)| *known == short).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_signals() {
        assert_eq!(number("SIGTERM"), Some(15));
        assert_eq!(number("QUIT"), Some(3));
        assert_eq!(number("9"), Some(9));
        assert_eq!(number("SIGRTMIN+3"), Some(37));
        assert_eq!(number("SIGRTMAX-14"), Some(50));
        assert_eq!(number("RTMAX"), Some(64));
        assert_eq!(number("SIGNOTHING"), None);
        assert_eq!(number("99"), None);
    }
}
