//! Log lines go to stderr, few unless asked for. What is logged is chosen by `TENURE_LOG`.
//!
//! ```text
//!   nothing asked, at a terminal   what is wrong; start and end are said by the command itself
//!   nothing asked, looked after    the same, and each step of a start and an end
//!   -v, TENURE_LOG=info            the same, and each request
//! ```
//!
//! Lines hold text of clients, pods, images and nodes, who say what they like. It stays on its line, and says
//! nothing to the terminal of whoever reads (downward-api R214a). That is true of what a line says, and of the
//! spans it is in.

use std::fmt::{self, Debug, Write as _};
use std::io::{self, IsTerminal as _};

use tracing::Dispatch;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::flags::LogFormat;
use crate::report::CommandError;
use crate::{environment, notify};

const VARIABLE: &str = "TENURE_LOG";

/// What is logged where nobody says more.
const TROUBLE: &str = "warn";

/// What is logged where a program reads, or keeps what is said: what happens to the process, with the time. Nothing
/// here is logged per request.
const STEPS: &str = "warn,tenure_host=info,tenure_node=info,tenure::node=info";

/// Starts to log, for a command that has much to say only when asked.
pub(crate) fn start_if_requested(verbose: u8) -> Result<(), CommandError> {
    let named = environment::variable(VARIABLE).is_some_and(|value| !value.is_empty());
    if verbose == 0 && !named { Ok(()) } else { start(LogFormat::Text, verbose) }
}

/// Starts to log what the variable says, or else what so many `-v` ask for.
pub(crate) fn start(format: LogFormat, verbose: u8) -> Result<(), CommandError> {
    let looked_after = matches!(format, LogFormat::Json) || notify::is_looked_after();
    let usual = if looked_after { STEPS } else { TROUBLE };
    let text = environment::variable(VARIABLE).and_then(|text| text.into_string().ok());
    let filter = filter(text.as_deref(), verbose, usual).map_err(|error| {
        CommandError::new(format!("the variable {VARIABLE} cannot be understood"))
            .usage()
            .cause(&error)
            .hint("write a level such as `info`, or `tenure_server=debug,warn`")
    })?;
    dispatch(format, filter, io::stderr, colors()).init();
    Ok(())
}

/// Who takes the lines and writes them.
fn dispatch<W>(format: LogFormat, filter: EnvFilter, writer: W, colors: bool) -> Dispatch
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    match format {
        LogFormat::Json => builder.json().with_writer(EscapingWriter(writer)).finish().into(),
        LogFormat::Text => {
            // Fields of spans are written by this as well.
            let fields = debug_fn(|line, field, value| match field.name() {
                "message" => escaped(line, value),
                name => {
                    write!(line, "{name}=")?;
                    escaped(line, value)
                }
            });
            let builder = builder.with_writer(writer).with_ansi(colors);
            builder.fmt_fields(fields.delimited(" ")).finish().into()
        }
    }
}

fn filter(text: Option<&str>, verbose: u8, usual: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(match (text, verbose) {
        (Some(text), _) if !text.is_empty() => text,
        (_, 0) => usual,
        (_, 1) => "info",
        (_, 2) => "debug",
        _ => "trace",
    })
}

fn colors() -> bool {
    let wanted = environment::variable("NO_COLOR").is_none_or(|value| value.is_empty());
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

/// Writes lines of JSON, whose texts escape controls below 0x80 only. What else misleads can stand in texts alone, so
/// it is escaped as they do it.
struct EscapingWriter<W>(W);

impl<'w, W: MakeWriter<'w>> MakeWriter<'w> for EscapingWriter<W> {
    type Writer = EscapingWriter<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        EscapingWriter(self.0.make_writer())
    }
}

impl<W: io::Write> io::Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A line comes as a whole.
        let text = String::from_utf8_lossy(bytes);
        let hidden = |letter: char| letter >= '\u{7f}' && misleads(letter);
        if !text.contains(hidden) {
            self.0.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let mut line = String::with_capacity(text.len() + 16);
        for letter in text.chars() {
            if hidden(letter) {
                // Each of them is one unit of UTF-16.
                write!(line, "\\u{:04x}", u32::from(letter)).map_err(io::Error::other)?;
            } else {
                line.push(letter);
            }
        }
        self.0.write_all(line.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Controls, ends of lines, and marks that turn the direction of what follows.
fn misleads(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md (R214a) and spec/api-server.md (R179e).

    use std::sync::{Arc, Mutex};

    use super::*;

    /// What a client, a user or a pod may be called.
    const SAID: &str = "a\nWARN forged\r\x1b[31m \u{9b}\u{202e}\u{2028}é \"x\" \u{7f}";

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged by some code, as lines.
    fn logged(format: LogFormat, filter_text: &str, run: impl FnOnce()) -> Vec<String> {
        let kept = Kept::default();
        let writer = kept.clone();
        let filter = filter(Some(filter_text), 0, TROUBLE).unwrap();
        let dispatch = dispatch(format, filter, move || writer.clone(), false);
        tracing::dispatcher::with_default(&dispatch, run);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn r214a_text_of_others_stays_on_its_line() {
        let mut line = String::new();
        let said = "a\nWARN forged\r\x1b[31m \u{9b}\u{202e}\u{2028}é \"x\"";
        // As `%value` hands it over.
        escaped(&mut line, &format_args!("{said}")).unwrap();
        assert_eq!(line, "a\\nWARN forged\\r\\u{1b}[31m \\u{9b}\\u{202e}\\u{2028}é \"x\"");
    }

    #[test]
    fn r214a_what_spans_say_stays_on_its_line_too() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let lines = logged(format, "info", || {
                // As a request: its user is known a little later, and named by a certificate.
                let user = tracing::field::Empty;
                let span = tracing::info_span!("request", shown = %SAID, given = SAID, user);
                span.record("user", SAID);
                let (_inside, path) = (span.enter(), SAID);
                tracing::info!(path, said = %SAID, "{SAID}");
            });
            let [line] = &lines[..] else { panic!("not one line: {lines:?}") };
            let hidden = line.chars().filter(|letter| misleads(*letter)).collect::<String>();
            assert_eq!(hidden, "", "{line}");
            // Three texts of the span, which JSON has twice, and three of the line.
            let times = if matches!(format, LogFormat::Json) { 9 } else { 6 };
            assert_eq!(line.matches("forged").count(), times, "{line}");
            assert!(line.contains('é'), "what does no harm is shown: {line}");
            if matches!(format, LogFormat::Json) {
                let read: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(read["span"]["user"], SAID, "{line}");
                assert_eq!(read["fields"]["path"], SAID, "{line}");
            }
        }
    }

    #[test]
    fn r179e_steps_are_told_without_requests_and_info_tells_both() {
        let told = |text: &str| {
            let lines = logged(LogFormat::Text, text, || {
                tracing::info!(target: "tenure_host::control_plane", "a step");
                tracing::info!(target: "tenure::request", "a request");
                tracing::info!(target: "tenure_server::admit", "an admission");
                tracing::warn!(target: "tenure_server::listen", "a trouble");
            });
            let word = |line: &String| line.rsplit(' ').next().unwrap_or_default().to_owned();
            lines.iter().map(word).collect::<Vec<_>>()
        };
        assert_eq!(told(TROUBLE), ["trouble"]);
        assert_eq!(told(STEPS), ["step", "trouble"]);
        assert_eq!(told("info"), ["step", "request", "admission", "trouble"]);
        assert_eq!(told("info,tenure::request=off"), ["step", "admission", "trouble"]);
    }
}
