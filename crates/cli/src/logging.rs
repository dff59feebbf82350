//! Log lines go to stderr, few unless asked for. What is logged is chosen by `TENURE_LOG`.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::flags::LogFormat;
use crate::report::Problem;

const VARIABLE: &str = "TENURE_LOG";

pub(crate) fn start(format: LogFormat) -> Result<(), Problem> {
    let filter = filter(std::env::var(VARIABLE).ok().as_deref()).map_err(|error| {
        Problem::new(format!("the variable {VARIABLE} cannot be understood"))
            .cause(&error)
            .hint("write a level such as `info`, or `tenure_server=debug,warn`")
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Json => builder.json().init(),
        LogFormat::Text => builder.with_ansi(colors()).init(),
    }
    Ok(())
}

fn filter(text: Option<&str>) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(match text {
        None | Some("") => "warn",
        Some(text) => text,
    })
}

fn colors() -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    wanted && std::io::stderr().is_terminal()
}
