//! `tenure tree`, `why`, `plan` and `audit`: read a cluster, print what is seen. Nothing is decided
//! or written here.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use tenure_inspect::render::{self, Paint};
use tenure_inspect::{Access, Found, Kinds, Live, Look, Policy, Reader, Scope, Served};

use crate::flags::{
    Audit, CascadeFlag, ColorFlag, Form, PlanDelete, Tree, TreeForm, What, Where, Why,
};
use crate::report::Problem;
use crate::say;

/// The exit code of an audit that could not read all of the cluster.
pub(crate) const COULD_NOT_LOOK: u8 = 2;
/// The exit code of an audit that found something.
const FOUND: u8 = 1;

pub(crate) fn tree(flags: &Tree, program: &str) -> Result<ExitCode, Problem> {
    if flags.watch && !matches!(flags.output, TreeForm::Text | TreeForm::Json) {
        return Err(Problem::new("a picture cannot be watched")
            .hint("leave --watch out, or use `-o text` or `-o json`"));
    }
    block_on(async {
        let reader = connect(&flags.cluster, flags.what.namespace.clone()).await?;
        let paint = paint(flags.cluster.color);
        if flags.watch {
            return watch(&reader, flags, program, paint).await;
        }
        let mut look = Look::new(reader.read().await?);
        let drawn = draw(&reader, &mut look, flags, program, paint).await?;
        say(drawn.as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

async fn draw(
    reader: &Reader,
    look: &mut Look,
    flags: &Tree,
    program: &str,
    paint: Paint,
) -> Result<String, Problem> {
    let root = find(look, reader, &flags.what, program)?.clone();
    let tree = look.tree(&root, flags.up);
    reader.statuses(look, &tree).await;
    let tree = look.tree(&root, flags.up);
    Ok(match flags.output {
        TreeForm::Text => render::tree(&tree, paint),
        TreeForm::Json => render::json(&tree),
        TreeForm::Dot => render::dot(&tree),
        TreeForm::Mermaid => render::mermaid(&tree),
        TreeForm::Svg => render::svg(&tree),
    })
}

/// Shows the tree again and again, until interrupted or until nobody reads.
async fn watch(
    reader: &Reader,
    flags: &Tree,
    program: &str,
    paint: Paint,
) -> Result<ExitCode, Problem> {
    let mut live = Live::start(reader).await?;
    let screen = flags.output == TreeForm::Text && std::io::stdout().is_terminal();
    let mut shown = String::new();
    while let Some(facts) = live.next().await {
        let mut look = Look::new(facts);
        let drawn = match draw(reader, &mut look, flags, program, paint).await {
            Ok(drawn) => drawn,
            // It was there and is gone: that is worth showing, and the end.
            Err(problem) if shown.is_empty() => return Err(problem),
            Err(_) => {
                say(b"gone\n");
                return Ok(ExitCode::SUCCESS);
            }
        };
        // Ages and the time of reading change all the time; they alone are no change.
        let still = without_times(&drawn);
        if still == without_times(&shown) {
            continue;
        }
        let clear = if screen { "\x1b[H\x1b[2J\x1b[3J" } else { "" };
        let apart = if screen || shown.is_empty() { "" } else { "\n" };
        let mut out = std::io::stdout().lock();
        let written = out.write_all(format!("{clear}{apart}{drawn}").as_bytes());
        if written.and_then(|()| out.flush()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        drop(out);
        shown = drawn;
    }
    Ok(ExitCode::SUCCESS)
}

fn without_times(drawn: &str) -> String {
    let words = drawn.split_whitespace().filter(|word| {
        let digits = word.trim_end_matches([',', 's', 'm', 'h', 'd']);
        digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let mut still = String::new();
    let mut time = false;
    for word in words {
        if !std::mem::replace(&mut time, word == "\"now\":") {
            still.push_str(word);
            still.push(' ');
        }
    }
    still
}

pub(crate) fn why(flags: &Why, program: &str) -> Result<ExitCode, Problem> {
    block_on(async {
        let reader = connect(&flags.reply.cluster, flags.what.namespace.clone()).await?;
        let look = Look::new(reader.read().await?);
        let found = find(&look, &reader, &flags.what, program)?;
        let mut why = look.why(found);
        why.reasons.extend(reader.retention(&look, found).await);
        let text = match flags.reply.output {
            Form::Text => render::why(&why, program, paint(flags.reply.cluster.color)),
            Form::Json => {
                why.reasons = why.reasons.into_iter().map(|r| r.called_by(program)).collect();
                render::json(&why)
            }
        };
        say(text.as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn plan(flags: &PlanDelete, program: &str) -> Result<ExitCode, Problem> {
    let policy = match flags.cascade {
        CascadeFlag::Background => Policy::Background,
        CascadeFlag::Foreground => Policy::Foreground,
        CascadeFlag::Orphan => Policy::Orphan,
    };
    block_on(async {
        let reader = connect(&flags.reply.cluster, flags.what.namespace.clone()).await?;
        let mut look = Look::new(reader.read().await?);
        reader.graces(&mut look).await;
        let plan = look.plan(find(&look, &reader, &flags.what, program)?, policy);
        let text = match flags.reply.output {
            Form::Text => render::plan(&plan, program, paint(flags.reply.cluster.color)),
            Form::Json => render::json(&plan),
        };
        say(text.as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn audit(flags: &Audit, program: &str) -> Result<ExitCode, Problem> {
    block_on(async {
        let reader = connect(&flags.reply.cluster, flags.namespace.clone()).await?;
        let look = Look::new(reader.read().await?);
        let scope = Scope { namespace: flags.namespace.clone(), stuck_after: flags.stuck_after };
        let mut audit = look.audit(&scope);
        let code = match (audit.findings.is_empty(), audit.unread.is_empty() || flags.partial) {
            (false, _) => ExitCode::from(FOUND),
            (true, true) => ExitCode::SUCCESS,
            (true, false) => ExitCode::from(COULD_NOT_LOOK),
        };
        let text = match flags.reply.output {
            Form::Text => render::audit(&audit, program, paint(flags.reply.cluster.color)),
            Form::Json => {
                audit.findings = audit.findings.into_iter().map(|f| f.called_by(program)).collect();
                render::json(&audit)
            }
        };
        say(text.as_bytes());
        Ok(code)
    })
}

/// One thread is enough: the waiting is for the cluster.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Problem::new("no connections can be made").cause(&error))?;
    runtime.block_on(Box::pin(work))
}

pub(crate) async fn connect(place: &Where, namespace: Option<String>) -> Result<Reader, Problem> {
    let access =
        Access { kubeconfig: place.kubeconfig.clone(), context: place.context.clone(), namespace };
    Ok(Reader::connect(&access).await?)
}

pub(crate) fn paint(color: ColorFlag) -> Paint {
    let wanted = match color {
        ColorFlag::Always => true,
        ColorFlag::Never => false,
        ColorFlag::Auto => {
            let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            !refused && std::io::stdout().is_terminal()
        }
    };
    if wanted { Paint::Colored } else { Paint::Plain }
}

/// The kind that a word means.
pub(crate) fn called<'a>(kinds: &'a Kinds, word: &str) -> Result<&'a Served, Problem> {
    kinds.called(word).ok_or_else(|| {
        let problem = Problem::new(format!("the cluster serves no kind `{word}`"));
        let like = kinds.like(word);
        match like.is_empty() {
            true => problem.hint("see what it serves with `kubectl api-resources`"),
            false => problem.hint(format!("perhaps `{}`", like.join("`, `"))),
        }
    })
}

/// The object that the words mean.
fn find<'a>(
    look: &'a Look,
    reader: &Reader,
    what: &What,
    program: &str,
) -> Result<&'a Found, Problem> {
    let (kind, name) = match what.object.as_slice() {
        [one] => one.split_once('/').unwrap_or((one, "")),
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => ("", ""),
    };
    if kind.is_empty() || name.is_empty() || name.contains('/') {
        return Err(Problem::new(format!("`{}` names no object", what.object.join(" ")))
            .hint(format!("write a kind and a name: `{program} why deployment/web`")));
    }
    let served = called(&look.facts().kinds, kind)?;
    let namespace = if served.namespaced { reader.namespace() } else { "" };
    if let Some(found) = look.find(served, namespace, name).filter(|found| !found.assumed) {
        return Ok(found);
    }
    let place = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    let problem = Problem::new(format!("there is no {} `{place}`", served.kind));
    let unread = look.unread().iter().find(|unread| unread.kind == served.qualified());
    if let Some(unread) = unread {
        return Err(problem.cause(&format!("`{}` could not be read: {}", unread.kind, unread.why)));
    }
    let elsewhere = look.facts().objects.iter().find(|found| {
        found.served.qualified() == served.qualified() && found.meta.name == name && !found.assumed
    });
    Err(match elsewhere {
        Some(found) => problem.hint(format!("there is one with `-n {}`", found.meta.namespace)),
        None => problem.hint(match namespace {
            "" => format!("see what there is with `kubectl get {}`", served.qualified()),
            _ => format!("see what there is with `kubectl get {} -A`", served.qualified()),
        }),
    })
}
