//! The configuration file of `tenure up`: the names of its flags with values, in YAML. Its values become flags
//! behind those that were given, which win, so that everything is checked in one place.
//!
//! ```text
//!   words ──► which file? ──► its fields, each checked ──► words + fields that no word says ──► flags
//! ```

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value};

use crate::flags::path::{here, relative_to, right_of_equals};
use crate::report::CommandError;

/// Flags that say how the command runs, not how the server is.
const NOT_SETTINGS: [&str; 6] =
    ["help", "version", "config", "print-config", "detach", "background"];

/// Reads the words of a command and the file that they name.
pub(crate) fn read(command: &Command, words: Vec<OsString>) -> Result<ArgMatches, CommandError> {
    let matches = matches(command, &words);
    let Some(("up", up)) = matches.subcommand() else { return Ok(matches) };
    let file = up.get_one::<std::path::PathBuf>("config").cloned();
    let Some(file) = file else { return Ok(matches) };
    let fields = fields(&file)?;
    let mut words = words;
    words.extend(from_file(command, up, &file, &fields)?);
    Ok(self::matches(command, &words))
}

fn matches(command: &Command, words: &[OsString]) -> ArgMatches {
    command.clone().try_get_matches_from(words).unwrap_or_else(|error| error.exit())
}

/// The fields of a file.
fn fields(file: &Path) -> Result<Map<String, Value>, CommandError> {
    let failed = |cause: &dyn std::fmt::Display| {
        CommandError::new(format!("the configuration `{}` cannot be read", file.display()))
            .usage()
            .cause(cause)
            .hint("see what it may say with `tenure up --print-config`")
    };
    let text = std::fs::read(file).map_err(|error| failed(&error))?;
    if text.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    match tenure_yaml::to_json(&text, tenure_yaml::YamlLimits::default()) {
        Ok(Value::Object(fields)) => Ok(fields),
        // Nothing but comments.
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(failed(&"it is no mapping of names to values")),
        Err(error) => Err(failed(&error)),
    }
}

/// The flags that a file stands for, without those that were given.
fn from_file(
    command: &Command,
    given: &ArgMatches,
    file: &Path,
    fields: &Map<String, Value>,
) -> Result<Vec<OsString>, CommandError> {
    let mut command = command.clone();
    command.build();
    let Some(up) = command.find_subcommand("up") else { return Ok(Vec::new()) };
    let wrong = |name: &str, cause: &str| {
        CommandError::new(format!("`{name}` in `{}` is wrong", file.display()))
            .usage()
            .cause(&cause)
    };
    let is_given =
        |arg: &Arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut words = Vec::new();
    for (name, value) in fields {
        let Some(arg) = settings(up).find(|arg| arg.get_long() == Some(name)) else {
            return Err(unknown(up, file, name));
        };
        let said = words_of(arg, name, value, folder).map_err(|cause| wrong(name, &cause))?;
        if let Err(cause) = alone(&command, &said) {
            return Err(wrong(name, &cause));
        }
        let contradicts = settings(up).filter(|other| is_given(other)).any(|other| {
            let is = |list: Vec<&Arg>, id: &clap::Id| list.iter().any(|arg| arg.get_id() == id);
            is(up.get_arg_conflicts_with(arg), other.get_id())
                || is(up.get_arg_conflicts_with(other), arg.get_id())
        });
        if !is_given(arg) && !contradicts {
            words.extend(said.into_iter().map(OsString::from));
        }
    }
    Ok(words)
}

/// The flags that a file may name.
fn settings(up: &Command) -> impl Iterator<Item = &Arg> {
    up.get_arguments()
        .filter(|arg| arg.get_long().is_some_and(|name| !NOT_SETTINGS.contains(&name)))
}

fn unknown(up: &Command, file: &Path, name: &str) -> CommandError {
    let problem =
        CommandError::new(format!("there is no setting `{name}`, as `{}` says", file.display()));
    let problem = problem.usage();
    let names: Vec<&str> = settings(up).filter_map(Arg::get_long).collect();
    // A name may be written as programs write theirs, in another case.
    let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
    let like = names.iter().find(|known| plain(known) == plain(name));
    let like = like.or_else(|| {
        names
            .iter()
            .filter(|known| distance(known, name) <= 3)
            .min_by_key(|known| distance(known, name))
    });
    match like {
        Some(like) => problem.hint(format!("perhaps `{like}`")),
        None => problem
            .hint("the names are those of the flags of `tenure up --help`, without hyphens before"),
    }
}

/// How many letters must change for one word to become the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut next = vec![line + 1];
        for ((place, above), letters) in row.iter().skip(1).enumerate().zip(&other) {
            let corner = row.get(place).copied().unwrap_or_default();
            let left = next.last().copied().unwrap_or_default();
            next.push((corner + usize::from(letter != *letters)).min(left + 1).min(above + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

/// What clap says of a flag alone; whether it goes with the others is seen later.
fn alone(command: &Command, said: &[String]) -> Result<(), String> {
    let words = ["tenure", "up"].into_iter().chain(said.iter().map(String::as_str));
    match command.clone().try_get_matches_from(words) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::ValueValidation
                    | ErrorKind::InvalidValue
                    | ErrorKind::TooManyValues
                    | ErrorKind::ArgumentConflict
            ) =>
        {
            let text = error.to_string();
            let lines =
                text.lines().map(str::trim).take_while(|line| !line.starts_with("For more"));
            let words: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
            Err(words.join(" ").trim_start_matches("error: ").to_owned())
        }
        _ => Ok(()),
    }
}

/// A field as words of a command.
fn words_of(arg: &Arg, name: &str, value: &Value, folder: &Path) -> Result<Vec<String>, String> {
    match (arg.get_action(), value) {
        (_, Value::Null) => return Ok(Vec::new()),
        (ArgAction::SetTrue, Value::Bool(on)) => {
            return Ok(if *on { vec![format!("--{name}")] } else { Vec::new() });
        }
        (ArgAction::SetTrue, _) => return Err("it is `true` or `false`".to_owned()),
        (ArgAction::Count, Value::Number(times)) if times.as_u64().is_some_and(|n| n <= 3) => {
            let times = times.as_u64().and_then(|times| usize::try_from(times).ok());
            return Ok(vec![format!("--{name}"); times.unwrap_or_default()]);
        }
        (ArgAction::Count, _) => return Err("it is a number from 0 to 3".to_owned()),
        _ => {}
    }
    let pairs =
        arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains('=')));
    let values: Vec<String> = match value {
        Value::Array(items) if matches!(arg.get_action(), ArgAction::Append) => {
            items.iter().map(scalar).collect::<Result<_, _>>()?
        }
        Value::Array(_) => return Err("it takes one value".to_owned()),
        Value::Object(map) if pairs => map
            .iter()
            .map(|(key, value)| scalar(value).map(|value| format!("{key}={value}")))
            .collect::<Result<_, _>>()?,
        other => vec![scalar(other)?],
    };
    let values =
        values.into_iter().map(|value| in_place(arg, value, |path| relative_to(folder, path)));
    Ok(values.map(|value| format!("--{name}={value}")).collect())
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(on) => Ok(on.to_string()),
        _ => Err("it is neither a text nor a number".to_owned()),
    }
}

/// A value whose path, if it has one, is made absolute.
fn in_place(arg: &Arg, value: String, place: impl Fn(&str) -> std::path::PathBuf) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    match names.first().map(|name| name.as_str()) {
        Some("FILE" | "DIR") => place(&value).display().to_string(),
        Some("FOLDER") => match right_of_equals(&value) {
            (Some(image), folder) => format!("{image}={}", place(folder).display()),
            (None, folder) => place(folder).display().to_string(),
        },
        Some("RUNTIME") => match value.strip_prefix("cri=") {
            Some(socket) => format!("cri={}", place(socket).display()),
            None => value,
        },
        _ => value,
    }
}

/// All settings of a start as a file that says the same; what nobody set is a comment.
pub(crate) fn print(command: &Command, matches: &ArgMatches) -> String {
    let mut command = command.clone();
    command.build();
    let (Some(up), Some(("up", given))) = (command.find_subcommand("up"), matches.subcommand())
    else {
        return String::new();
    };
    let mut text =
        "# What `tenure up` does with these flags and this file, for `tenure up --config FILE`.\n\
                    # Relative paths are below the folder of the file; flags win over it.\n"
            .to_owned();
    for arg in settings(up) {
        let (Some(name), id) = (arg.get_long(), arg.get_id().as_str()) else { continue };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        text += &format!("\n# {}\n", help.lines().next().unwrap_or_default());
        let value = match arg.get_action() {
            ArgAction::SetTrue => Some(Value::Bool(given.get_flag(id))),
            ArgAction::Count => Some(Value::from(given.get_count(id))),
            _ => given.get_raw(id).map(|raw| values(arg, raw)),
        };
        match value {
            Some(value) => {
                let field = Map::from_iter([(name.to_owned(), value)]);
                text += &tenure_yaml::from_json(&Value::Object(field));
            }
            None => text += &format!("# {name}:\n"),
        }
    }
    text
}

fn values<'a>(arg: &Arg, raw: impl Iterator<Item = &'a std::ffi::OsStr>) -> Value {
    let absolute = |path: &str| here(Path::new(path)).unwrap_or_else(|_| path.into());
    let mut values: Vec<Value> = raw
        .map(|value| in_place(arg, value.to_string_lossy().into_owned(), absolute))
        .map(|text| match text.parse::<u64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::from(text),
        })
        .collect();
    match (arg.get_action(), values.len()) {
        (ArgAction::Append, _) => Value::Array(values),
        (_, 1) => values.remove(0),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use serde_json::json;

    use super::*;
    use crate::flags::Flags;

    fn merged(words: &[&str], file: &Value) -> Result<Vec<String>, String> {
        let command = Flags::command();
        let words: Vec<OsString> =
            ["tenure", "up"].iter().chain(words).map(OsString::from).collect();
        let matches = matches(&command, &words);
        let (_, up) = matches.subcommand().unwrap();
        let fields = file.as_object().unwrap();
        let said = from_file(&command, up, Path::new("/etc/tenure/up.yaml"), fields);
        said.map(|words| words.into_iter().map(|word| word.into_string().unwrap()).collect())
            .map_err(|problem| problem.to_string())
    }

    #[test]
    fn fields_become_flags() {
        let file = json!({
            "data-dir": "data", "nodes": 3, "ephemeral": false, "warn-dangling-owners": true,
            "controllers": ["*", "-job"], "feature-gates": {"ControllersAsOwners": false},
            "image-dir": ["busybox=images/b"], "runtime": "cri=run/c.sock", "event-ttl": null,
        });
        let wanted = [
            "--controllers=*",
            "--controllers=-job",
            "--data-dir=/etc/tenure/data",
            "--feature-gates=ControllersAsOwners=false",
            "--image-dir=busybox=/etc/tenure/images/b",
            "--nodes=3",
            "--runtime=cri=/etc/tenure/run/c.sock",
            "--warn-dangling-owners",
        ];
        assert_eq!(merged(&[], &file).unwrap(), wanted);
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = json!({ "data-dir": "data", "nodes": 3, "listen": "127.0.0.1:1" });
        let words = ["--nodes", "1", "--ephemeral"];
        assert_eq!(merged(&words, &file).unwrap(), ["--listen=127.0.0.1:1"]);
    }

    #[test]
    fn mistakes_name_their_field() {
        for (file, said) in [
            (
                json!({ "listen": "6443" }),
                "error: `listen` in `/etc/tenure/up.yaml` is wrong\n  cause: invalid value '6443' for '--listen <ADDRESS:PORT>'",
            ),
            (
                json!({ "ephemeral": "yes" }),
                "`ephemeral` in `/etc/tenure/up.yaml` is wrong\n  cause: it is `true` or `false`",
            ),
            (json!({ "store": "tape" }), "[possible values: file, memory]"),
            (json!({ "nodes": [1] }), "cause: it takes one value"),
            (
                json!({ "dataDir": "x" }),
                "there is no setting `dataDir`, as `/etc/tenure/up.yaml` says\n  hint: perhaps `data-dir`",
            ),
            (json!({ "lisen": "x" }), "hint: perhaps `listen`"),
            (json!({ "detach": true }), "there is no setting `detach`"),
            (json!({ "nothing-like-it": 1 }), "the names are those of the flags"),
        ] {
            let told = merged(&[], &file).unwrap_err();
            assert!(told.contains(said), "{told}");
        }
    }

    #[test]
    fn what_is_printed_can_be_read() {
        let command = Flags::command();
        let words = ["tenure", "up", "--nodes", "2", "--controllers", "*,-job", "--audit-log", "-"];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let printed = print(&command, &matches(&command, &words));
        let value =
            tenure_yaml::to_json(printed.as_bytes(), tenure_yaml::YamlLimits::default()).unwrap();
        assert_eq!(value["nodes"], 2);
        assert_eq!(value["audit-log"], "-");
        assert_eq!(value["controllers"], json!(["*", "-job"]));
        assert_eq!(value["listen"], "127.0.0.1:6443");
        assert!(printed.contains("\n# kubeconfig:\n"), "{printed}");
        merged(&[], &value).unwrap();
    }
}
