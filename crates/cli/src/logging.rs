//! Log lines go to stderr, few unless asked for. What is logged is chosen by `TENURE_LOG`.
//!
//! Lines hold text of clients, pods, images and nodes, who say what they like. It stays on its line, and says
//! nothing to the terminal of whoever reads (downward-api R214a).

use std::fmt::{self, Debug, Write as _};
use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::format::debug_fn;

use crate::flags::LogFormat;
use crate::report::CommandError;

const VARIABLE: &str = "TENURE_LOG";

/// Starts to log, for a command that has much to say only when asked.
pub(crate) fn start_if_requested(verbose: u8) -> Result<(), CommandError> {
    let named = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty());
    if verbose == 0 && !named { Ok(()) } else { start(LogFormat::Text, verbose) }
}

/// Starts to log what the variable says, or else what so many `-v` ask for.
pub(crate) fn start(format: LogFormat, verbose: u8) -> Result<(), CommandError> {
    let filter = filter(std::env::var(VARIABLE).ok().as_deref(), verbose).map_err(|error| {
        CommandError::new(format!("the variable {VARIABLE} cannot be understood"))
            .usage()
            .cause(&error)
            .hint("write a level such as `info`, or `tenure_server=debug,warn`")
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Json => builder.json().init(),
        LogFormat::Text => {
            let fields = debug_fn(|line, field, value| match field.name() {
                "message" => escaped(line, value),
                name => {
                    write!(line, "{name}=")?;
                    escaped(line, value)
                }
            });
            builder.with_ansi(colors()).fmt_fields(fields.delimited(" ")).init();
        }
    }
    Ok(())
}

fn filter(text: Option<&str>, verbose: u8) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(match (text, verbose) {
        (Some(text), _) if !text.is_empty() => text,
        (_, 0) => "warn",
        (_, 1) => "info",
        (_, 2) => "debug",
        _ => "trace",
    })
}

fn colors() -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    wanted && std::io::stderr().is_terminal()
}

/// Writes a value with escapes for what would mislead a reader.
fn escaped(line: &mut dyn fmt::Write, value: &dyn Debug) -> fmt::Result {
    write!(Escaping(line), "{value:?}")
}

struct Escaping<'a>(&'a mut dyn fmt::Write);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| {
            if misleads(letter) {
                write!(self.0, "{}", letter.escape_default())
            } else {
                self.0.write_char(letter)
            }
        })
    }
}

/// Controls, ends of lines, and marks that turn the direction of what follows.
fn misleads(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use super::*;

    #[test]
    fn r214a_text_of_others_stays_on_its_line() {
        let mut line = String::new();
        let said = "a\nWARN forged\r\x1b[31m \u{9b}\u{202e}\u{2028}é \"x\"";
        // As `%value` hands it over.
        escaped(&mut line, &format_args!("{said}")).unwrap();
        assert_eq!(line, "a\\nWARN forged\\r\\u{1b}[31m \\u{9b}\\u{202e}\\u{2028}é \"x\"");
    }
}
