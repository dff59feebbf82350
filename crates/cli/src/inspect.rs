//! `tenure tree`, `why`, `plan` and `audit`: read a cluster, print what is seen. Nothing is decided
//! or written here.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use tenure_host::kubeconfig::CONTEXT;
use tenure_inspect::render::{self, Paint};
use tenure_inspect::{
    AuditOptions, ClusterReader, ClusterSnapshot, ConnectionOptions, DeletionPropagation,
    DiscoveredKinds, DiscoveredResource, LiveCluster, ObjectPresence, ObservedObject,
    OwnershipAnalysis,
};

use crate::environment;
use crate::flags::{
    AuditCommand, CascadeFlag, ColorFlag, ObjectFlags, OutputFormat, PlanDelete, TreeFlags,
    TreeForm, Where, WhyFlags,
};
use crate::progress::WaitIndicator;
use crate::report::{COULD_NOT_LOOK, CommandError};
use crate::{say, servers};

/// The exit code of an audit that found something.
const FOUND: u8 = 1;

pub(crate) fn tree(flags: &TreeFlags, program: &str) -> Result<ExitCode, CommandError> {
    if flags.watch && !matches!(flags.output, TreeForm::Text | TreeForm::Json) {
        return Err(CommandError::new("a picture cannot be watched")
            .hint("leave --watch out, or use `-o text` or `-o json`"));
    }
    let asked = ResourceArgument::all_of(&flags.objects, program)?;
    block_on(async {
        let namespace = flags.namespace.clone().or_else(|| ResourceArgument::namespace(&asked));
        let reader = connect(&flags.cluster, namespace).await?;
        let paint = paint(flags.cluster.color);
        if flags.watch {
            return watch(&reader, flags, &asked, paint).await;
        }
        let facts = read(&reader).await?;
        let drawn = draw(&reader, facts, flags, &asked, paint).await?;
        say(drawn.as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

async fn draw(
    reader: &ClusterReader,
    mut facts: ClusterSnapshot,
    flags: &TreeFlags,
    asked: &[ResourceArgument],
    paint: Paint,
) -> Result<String, CommandError> {
    let mut uids = Vec::new();
    for asked in asked {
        uids.extend(seek(reader, &mut facts, asked, flags.all_namespaces).await?);
    }
    let mut look = OwnershipAnalysis::new(facts);
    let roots: Vec<ObservedObject> = uids.iter().filter_map(|uid| look.get(uid)).cloned().collect();
    let roots: Vec<&ObservedObject> = roots.iter().collect();
    let tree = look.trees(&roots, flags.up);
    reader.statuses(&mut look, &tree).await;
    let tree = look.trees(&roots, flags.up);
    // Programs get every object, and so does who asks for it.
    let tree = match flags.all || flags.output == TreeForm::Json {
        true => tree,
        false => tree.folded(asked.iter().all(|asked| asked.name.is_none())),
    };
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
    reader: &ClusterReader,
    flags: &TreeFlags,
    asked: &[ResourceArgument],
    paint: Paint,
) -> Result<ExitCode, CommandError> {
    let mut live = LiveCluster::start(reader).await?;
    let screen = flags.output == TreeForm::Text && std::io::stdout().is_terminal();
    let (mut shown, mut told) = (String::new(), String::new());
    while let Some(facts) = live.next().await {
        let drawn = match draw(reader, facts, flags, asked, paint).await {
            Ok(drawn) => drawn,
            Err(problem) if shown.is_empty() => return Err(problem),
            // It was there and the cluster says that it is gone: that is worth showing, and the end.
            Err(problem) if problem.is_absence() => {
                say(b"gone\n");
                return Ok(ExitCode::SUCCESS);
            }
            // What cannot be seen for a while may be there all the same.
            Err(problem) => {
                let problem = problem.to_string();
                if problem != told {
                    let _ = std::io::stderr().lock().write_all(problem.as_bytes());
                }
                told = problem;
                continue;
            }
        };
        told.clear();
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

pub(crate) fn why(flags: &WhyFlags, program: &str) -> Result<ExitCode, CommandError> {
    block_on(async {
        let (reader, facts, uid) = about(&flags.reply.cluster, &flags.what, program).await?;
        let look = OwnershipAnalysis::new(facts);
        let found = present(&look, &uid)?;
        let mut why = look.why(found);
        why.reasons.extend(reader.retention(&look, found).await);
        let text = match flags.reply.output {
            OutputFormat::Text => render::why(&why, program, paint(flags.reply.cluster.color)),
            OutputFormat::Json => {
                why.reasons = why.reasons.into_iter().map(|r| r.called_by(program)).collect();
                render::json(&why)
            }
        };
        say(text.as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn plan(flags: &PlanDelete, program: &str) -> Result<ExitCode, CommandError> {
    let policy = match flags.cascade {
        CascadeFlag::Background => DeletionPropagation::Background,
        CascadeFlag::Foreground => DeletionPropagation::Foreground,
        CascadeFlag::Orphan => DeletionPropagation::Orphan,
    };
    block_on(async {
        let (reader, facts, uid) = about(&flags.reply.cluster, &flags.what, program).await?;
        let mut look = OwnershipAnalysis::new(facts);
        reader.graces(&mut look).await;
        let target = present(&look, &uid)?.clone();
        reader.releases(&mut look, &target).await;
        let plan = look.plan(&target, policy);
        let text = match flags.reply.output {
            OutputFormat::Text => {
                render::plan(&plan, flags.all, program, paint(flags.reply.cluster.color))
            }
            OutputFormat::Json => render::json(&plan),
        };
        say(text.as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn audit(flags: &AuditCommand, program: &str) -> Result<ExitCode, CommandError> {
    block_on(async {
        let reader = connect(&flags.reply.cluster, flags.namespace.clone()).await?;
        let look = OwnershipAnalysis::new(read(&reader).await?);
        let scope =
            AuditOptions { namespace: flags.namespace.clone(), stuck_after: flags.stuck_after };
        let mut audit = look.audit(&scope);
        let enough = audit.is_whole() || (flags.partial && audit.saw_anything());
        let code = match (audit.findings.is_empty(), enough) {
            (false, _) => ExitCode::from(FOUND),
            (true, true) => ExitCode::SUCCESS,
            (true, false) => ExitCode::from(COULD_NOT_LOOK),
        };
        let text = match flags.reply.output {
            OutputFormat::Text => render::audit(&audit, program, paint(flags.reply.cluster.color)),
            OutputFormat::Json => {
                audit.findings = audit.findings.into_iter().map(|f| f.called_by(program)).collect();
                render::json(&audit)
            }
        };
        say(text.as_bytes());
        Ok(code)
    })
}

/// One thread is enough: the waiting is for the cluster.
pub(crate) fn block_on<T>(
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| CommandError::new("no connections can be made").cause(&error))?;
    runtime.block_on(Box::pin(work))
}

/// Reads a cluster, and says so if that takes long.
async fn read(reader: &ClusterReader) -> Result<ClusterSnapshot, CommandError> {
    let _waiting = WaitIndicator::new("reading the cluster");
    Ok(reader.read().await?)
}

pub(crate) async fn connect(
    place: &Where,
    namespace: Option<String>,
) -> Result<ClusterReader, CommandError> {
    let kubeconfig = place.kubeconfig.clone();
    let found = if kubeconfig.is_some() { None } else { servers::kubeconfig()? };
    // In a file of ours the context is ours, whatever somebody made the current one.
    let ours = found.is_some().then(|| CONTEXT.to_owned());
    let context = place.context.clone().or(ours);
    let access = ConnectionOptions { kubeconfig: kubeconfig.or(found), context, namespace };
    Ok(ClusterReader::connect(&access).await?)
}

pub(crate) fn paint(color: ColorFlag) -> Paint {
    let wanted = match color {
        ColorFlag::Always => true,
        ColorFlag::Never => false,
        ColorFlag::Auto => {
            let refused = environment::variable("NO_COLOR").is_some_and(|value| !value.is_empty());
            !refused && std::io::stdout().is_terminal()
        }
    };
    if wanted { Paint::Colored } else { Paint::Plain }
}

/// The kind that a word means.
pub(crate) fn called<'a>(
    kinds: &'a DiscoveredKinds,
    word: &str,
) -> Result<&'a DiscoveredResource, CommandError> {
    kinds.called(word).ok_or_else(|| {
        let problem = CommandError::new(format!("the cluster serves no kind `{word}`"));
        let like = kinds.like(word);
        match like.is_empty() {
            true => problem.hint("see what it serves with `kubectl api-resources`"),
            false => problem.hint(format!("perhaps `{}`", like.join("`, `"))),
        }
    })
}

/// What a person asks about: an object, or all of a kind.
struct ResourceArgument {
    kind: String,
    name: Option<String>,
}

impl ResourceArgument {
    /// `kind/name …`, `kind name …` or `kind`; several kinds with commas between them.
    fn all_of(words: &[String], program: &str) -> Result<Vec<ResourceArgument>, CommandError> {
        let wrong = || {
            CommandError::new(format!("`{}` names no object", words.join(" ")))
                .hint(format!("write a kind and a name: `{program} tree deployment/web`"))
        };
        let one = |kind: &str, name: Option<&str>| {
            let bad = |text: &str| text.is_empty() || text.contains('/');
            match bad(kind) || name.is_some_and(bad) {
                true => Err(wrong()),
                false => {
                    Ok(ResourceArgument { kind: kind.to_owned(), name: name.map(str::to_owned) })
                }
            }
        };
        if words.iter().any(|word| word.contains('/')) {
            let pairs = words.iter().map(|word| word.split_once('/').ok_or_else(wrong));
            return pairs.map(|pair| pair.and_then(|(kind, name)| one(kind, Some(name)))).collect();
        }
        let Some((kinds, names)) = words.split_first() else { return Err(wrong()) };
        let mut all = Vec::new();
        for kind in kinds.split(',') {
            if names.is_empty() {
                all.push(one(kind, None)?);
            }
            for name in names {
                all.push(one(kind, Some(name))?);
            }
        }
        Ok(all)
    }

    /// The one object that these words name.
    fn one_of(words: &[String], program: &str) -> Result<ResourceArgument, CommandError> {
        let mut all = ResourceArgument::all_of(words, program)?;
        match (all.pop(), all.is_empty()) {
            (Some(asked), true) if asked.name.is_some() => Ok(asked),
            _ => Err(CommandError::new(format!("`{}` names no object", words.join(" ")))
                .hint(format!("write a kind and a name: `{program} why deployment/web`"))),
        }
    }

    /// The namespace that is asked about: who may look only there should see it.
    fn namespace(all: &[ResourceArgument]) -> Option<String> {
        let of_namespace = |asked: &&ResourceArgument| {
            matches!(&*asked.kind.to_lowercase(), "ns" | "namespace" | "namespaces")
        };
        all.iter().find(of_namespace).and_then(|asked| asked.name.clone())
    }
}

/// Reads a cluster for the sake of one object, and gives its uid.
async fn about(
    place: &Where,
    what: &ObjectFlags,
    program: &str,
) -> Result<(ClusterReader, ClusterSnapshot, String), CommandError> {
    let asked = ResourceArgument::one_of(&what.object, program)?;
    let asked = std::slice::from_ref(&asked);
    let namespace = what.namespace.clone().or_else(|| ResourceArgument::namespace(asked));
    let reader = connect(place, namespace).await?;
    let mut facts = read(&reader).await?;
    let mut uids = Vec::new();
    for asked in asked {
        uids.extend(seek(&reader, &mut facts, asked, false).await?);
    }
    Ok((reader, facts, uids.pop().unwrap_or_default()))
}

fn present<'a>(look: &'a OwnershipAnalysis, uid: &str) -> Result<&'a ObservedObject, CommandError> {
    look.get(uid).ok_or_else(|| CommandError::new("the object is gone meanwhile").absent())
}

/// The objects that the words mean, by uid. Absent is what the cluster calls so, and nothing else.
async fn seek(
    reader: &ClusterReader,
    facts: &mut ClusterSnapshot,
    asked: &ResourceArgument,
    everywhere: bool,
) -> Result<Vec<String>, CommandError> {
    let served = called(&facts.kinds, &asked.kind)?.clone();
    let namespace = if served.namespaced { reader.namespace() } else { "" };
    let Some(name) = asked.name.as_deref().filter(|_| !(everywhere && served.namespaced)) else {
        return several(facts, asked, &served, namespace, everywhere);
    };
    let place = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    match reader.seek(facts, &served, namespace, name).await {
        ObjectPresence::Found(uid) => return Ok(vec![uid]),
        ObjectPresence::Unknown(why) => {
            let problem = CommandError::new(format!("{} `{place}` could not be read", served.kind));
            let scope =
                if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") };
            return Err(problem
                .cause(&why)
                .hint(format!("see what you may do with `kubectl auth can-i --list{scope}`")));
        }
        ObjectPresence::Absent => {}
    }
    let problem = CommandError::new(format!("there is no {} `{place}`", served.kind));
    let elsewhere = facts.objects.iter().find(|found| {
        found.served.qualified() == served.qualified() && found.meta.name == name && !found.assumed
    });
    let problem = problem.absent();
    Err(match elsewhere {
        Some(found) => problem.hint(format!("there is one with `-n {}`", found.meta.namespace)),
        None => problem.hint(match namespace {
            "" => format!("see what there is with `kubectl get {}`", served.qualified()),
            _ => format!("see what there is with `kubectl get {} -A`", served.qualified()),
        }),
    })
}

/// All objects of a kind, or of a name in any namespace.
fn several(
    facts: &ClusterSnapshot,
    asked: &ResourceArgument,
    served: &DiscoveredResource,
    namespace: &str,
    everywhere: bool,
) -> Result<Vec<String>, CommandError> {
    let mut found: Vec<&ObservedObject> = facts
        .objects
        .iter()
        .filter(|found| !found.assumed && found.served.qualified() == served.qualified())
        .filter(|found| everywhere || found.meta.namespace == namespace)
        .filter(|found| asked.name.as_ref().is_none_or(|name| found.meta.name == *name))
        .collect();
    found.sort_by_key(|found| found.named());
    if !found.is_empty() {
        return Ok(found.into_iter().map(|found| found.meta.uid.clone()).collect());
    }
    let what = match &asked.name {
        Some(name) => format!("{} `{name}`", served.kind),
        None => served.kind.clone(),
    };
    let place = match (everywhere || namespace.is_empty(), namespace) {
        (true, _) => String::new(),
        (false, namespace) => format!(" in namespace `{namespace}`"),
    };
    let kind = served.qualified();
    let unread = facts.unread.iter().find(|unread| unread.kind == kind);
    match unread.filter(|unread| everywhere || !unread.was_read_in(namespace)) {
        Some(unread) => {
            let problem =
                CommandError::new(format!("whether there is a {what}{place} cannot be said"));
            let problem = problem.cause(&format!("`{kind}` could not be read: {}", unread.why));
            Err(match everywhere && served.namespaced {
                true => problem.hint("name a namespace that you may read with `-n NAMESPACE`"),
                false => problem,
            })
        }
        None => Err(CommandError::new(format!("there is no {what}{place}"))
            .absent()
            .hint(format!("see what there is with `kubectl get {kind} -A`"))),
    }
}
