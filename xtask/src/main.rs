//! The chores of the house: `cargo xtask <chore>`. What the product does never lives here.

mod advisories;
mod bench;
mod docs;
mod fuzz;
mod gate;
mod lock;
mod rules;
mod sbom;
mod schema;
mod setup;
mod sim;
mod steps;
mod test;
mod tidy;
mod tools;
mod workspace;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test [--crash-rounds N] everything, with real clients; what CI runs
  gate                    format, clippy, tidy, rules, schema, dependencies, tests and examples; minutes
  setup                   installs what `test` needs
  tidy                    what a compiler does not see: dead files, arrows, paths, sizes
  rules [--check]         which rule of spec/ has which test: docs/reference/rules.md
  schema [--check]        the table of built-in types
  docs                    pages made from the program: flags, gates, the table of kinds
  bench [NAME]            measures a release build; a name chooses measures
  fuzz [--seconds N] [TARGET]…
                          feeds random input to every parser
  advisories [--database DIR]
                          known faults of locked crates; a folder with RustSec's database renews what is known
  sbom [FILE]             what the program is built from, as CycloneDX: target/tenure.cdx.json";

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
        Some("docs") => docs::run(rest),
        Some("bench") => bench::run(rest),
        Some("fuzz") => fuzz::run(rest),
        Some("advisories") => advisories::run(rest),
        Some("sbom") => sbom::run(rest),
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
