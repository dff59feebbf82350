//! The chores of the house: `cargo xtask <chore>`. What the product does never lives here.

mod bench;
mod fuzz;
mod gate;
mod rules;
mod schema;
mod setup;
mod sim;
mod steps;
mod test;
mod tidy;
mod workspace;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test [--crash-rounds N] everything, with real clients; what CI runs
  gate                    format, clippy, tidy, rules, schema, tests and examples; minutes
  setup                   installs what `test` needs
  tidy                    what a compiler does not see: dead files, arrows, paths, sizes
  rules [--check]         which rule of spec/ has which test: docs/reference/rules.md
  schema [--check]        the table of built-in types
  bench [NAME]            measures a release build; a name chooses measures
  fuzz [--seconds N]      feeds random input to every parser; needs nightly";

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let done = match arguments.first().map(String::as_str) {
        Some("test") => test::run(rest),
        Some("gate") => gate::run(rest),
        Some("setup") => setup::run(rest),
        Some("tidy") => tidy::run(rest),
        Some("rules") => rules::run(rest),
        Some("schema") => schema::run(rest),
        Some("bench") => bench::run(rest),
        Some("fuzz") => fuzz::run(rest),
        Some("sim") => sim::run(rest),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(())
        }
        Some(other) => Err(anyhow::anyhow!("no chore is called `{other}`\n\n{USAGE}")),
        None => Err(anyhow::anyhow!("name a chore\n\n{USAGE}")),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
