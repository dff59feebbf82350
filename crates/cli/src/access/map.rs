//! `tenure access map`, `diff`, `doctor` and `unused`: a cluster is read and looked at as a whole.

use std::process::ExitCode;

use tenure_inspect::UnreadableKind;
use tenure_inspect::access::{ClusterAccess, Edit, MapScope, identity, proposed_by};
use tenure_inspect::render::{self, access};
use tenure_references::live::ProposedObjects;

use crate::flags::{AccessDiff, AccessDoctor, AccessMap, AccessUnused, MapForm, OutputFormat};
use crate::inspect::{block_on, connect, paint};
use crate::migrate;
use crate::report::CommandError;
use crate::say;

/// Somebody should look.
const FOUND: u8 = 1;
/// Something changes, or is unused.
const DIFFERS: u8 = 3;

pub(super) fn map(flags: &AccessMap) -> Result<ExitCode, CommandError> {
    block_on(async {
        let reader = connect(&flags.cluster, None).await?;
        let rights =
            ClusterAccess::read(&reader, &ProposedObjects::default(), tenure_host::expressions())
                .await?;
        let who = flags.user.as_ref().map(|user| identity(user, &flags.groups));
        let map = rights.map(&MapScope { namespace: flags.namespace.clone(), who });
        let text = match flags.output {
            MapForm::Text => access::map(&map, paint(flags.cluster.color)),
            MapForm::Json => render::json(&map),
            MapForm::Dot => access::map_dot(&map),
            MapForm::Svg => access::map_svg(&map),
        };
        say(text.as_bytes());
        Ok(ended(false, FOUND, &map.unread))
    })
}

pub(super) fn diff(flags: &AccessDiff) -> Result<ExitCode, CommandError> {
    let mut objects = Vec::new();
    for file in &flags.file {
        objects.extend(migrate::read(file)?);
    }
    if objects.is_empty() {
        let files: Vec<String> = flags.file.iter().map(|file| migrate::named(file)).collect();
        return Err(CommandError::new(format!("no object is in {}", files.join(", ")))
            .hint("see whether the program that should write it does"));
    }
    let edit = if flags.delete { Edit::Delete } else { Edit::Apply };
    let wrong = |error: &dyn std::fmt::Display| {
        CommandError::new("the change cannot be judged").cause(error)
    };
    let proposal = proposed_by(&objects, edit);
    block_on(async {
        let reader = connect(&flags.reply.cluster, flags.namespace.clone()).await?;
        let rights = ClusterAccess::read(&reader, &proposal, tenure_host::expressions()).await?;
        let change = rights.change(&objects, edit, reader.namespace());
        let change = change.map_err(|error| wrong(&error))?;
        let text = match flags.reply.output {
            OutputFormat::Text => access::change(&change, paint(flags.reply.cluster.color)),
            OutputFormat::Json => render::json(&change),
        };
        say(text.as_bytes());
        Ok(ended(!change.is_nothing(), DIFFERS, &change.unread))
    })
}

pub(super) fn doctor(flags: &AccessDoctor, program: &str) -> Result<ExitCode, CommandError> {
    block_on(async {
        let reader = connect(&flags.reply.cluster, None).await?;
        let rights =
            ClusterAccess::read(&reader, &ProposedObjects::default(), tenure_host::expressions())
                .await?;
        let mut doctor = rights.doctor();
        let code = ended(doctor.warns(), FOUND, &doctor.unread);
        let text = match flags.reply.output {
            OutputFormat::Text => {
                access::doctor(&doctor, program, paint(flags.reply.cluster.color))
            }
            OutputFormat::Json => {
                doctor.advice = doctor.advice.into_iter().map(|it| it.called_by(program)).collect();
                render::json(&doctor)
            }
        };
        say(text.as_bytes());
        Ok(code)
    })
}

/// Nothing was found only where everything could be read.
pub(super) fn ended(found: bool, code: u8, unread: &[UnreadableKind]) -> ExitCode {
    match (found, unread.is_empty()) {
        (true, _) => ExitCode::from(code),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(migrate::COULD_NOT_READ),
    }
}

pub(super) fn unused(flags: &AccessUnused) -> Result<ExitCode, CommandError> {
    block_on(async {
        let reader = connect(&flags.reply.cluster, None).await?;
        let rights =
            ClusterAccess::read(&reader, &ProposedObjects::default(), tenure_host::expressions())
                .await?;
        let unused = rights.unused_grants(flags.namespace.as_deref());
        let text = match flags.reply.output {
            OutputFormat::Text => access::unused_grants(&unused, paint(flags.reply.cluster.color)),
            OutputFormat::Json => render::json(&unused),
        };
        say(text.as_bytes());
        Ok(ended(!unused.grants.is_empty(), DIFFERS, &unused.unread))
    })
}
