//! The chores of the house: `cargo xtask <chore>`.

mod schema;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    match arguments.first().map(String::as_str) {
        Some("schema") => schema::run(rest),
        Some(other) => anyhow::bail!("no chore is called `{other}`; there is: schema"),
        None => anyhow::bail!("name a chore: schema"),
    }
}
