//! `tenure access map`, `diff`, `doctor` and `unused`: a cluster is read and looked at as a whole.

use std::process::ExitCode;

use tenure_inspect::access::{Edit, MapScope, Rights, identity, strategies_in};
use tenure_inspect::render::{self, access};

use crate::flags::{AccessDiff, AccessDoctor, AccessMap, AccessUnused, Form, MapForm};
use crate::inspect::{block_on, connect, paint};
use crate::migrate;
use crate::report::Problem;
use crate::say;

/// Somebody should look.
const FOUND: u8 = 1;
/// Something changes, or is unused.
const DIFFERS: u8 = 3;

pub(super) fn map(flags: &AccessMap) -> Result<ExitCode, Problem> {
    block_on(async {
        let reader = connect(&flags.cluster, None).await?;
        let rights = Rights::read(&reader, &[], tenure_host::expressions()).await?;
        let who = flags.user.as_ref().map(|user| identity(user, &flags.groups));
        let map = rights.map(&MapScope { namespace: flags.namespace.clone(), who });
        let text = match flags.output {
            MapForm::Text => access::map(&map, paint(flags.cluster.color)),
            MapForm::Json => render::json(&map),
            MapForm::Dot => access::map_dot(&map),
            MapForm::Svg => access::map_svg(&map),
        };
        say(text.as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn diff(flags: &AccessDiff) -> Result<ExitCode, Problem> {
    let mut objects = Vec::new();
    for file in &flags.file {
        objects.extend(migrate::read(file)?);
    }
    let edit = if flags.delete { Edit::Delete } else { Edit::Apply };
    let wrong =
        |error: &dyn std::fmt::Display| Problem::new("the change cannot be judged").cause(error);
    let strategies = match edit {
        Edit::Apply => strategies_in(&objects).map_err(|error| wrong(&error))?,
        Edit::Delete => Vec::new(),
    };
    block_on(async {
        let reader = connect(&flags.cluster, flags.namespace.clone()).await?;
        let rights = Rights::read(&reader, &strategies, tenure_host::expressions()).await?;
        let change = rights.change(&objects, edit, reader.namespace());
        let change = change.map_err(|error| wrong(&error))?;
        let text = match flags.output {
            Form::Text => access::change(&change, paint(flags.cluster.color)),
            Form::Json => render::json(&change),
        };
        say(text.as_bytes());
        Ok(if change.is_nothing() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
    })
}

pub(super) fn doctor(flags: &AccessDoctor, program: &str) -> Result<ExitCode, Problem> {
    block_on(async {
        let reader = connect(&flags.cluster, None).await?;
        let rights = Rights::read(&reader, &[], tenure_host::expressions()).await?;
        let mut doctor = rights.doctor();
        let code = if doctor.warns() { ExitCode::from(FOUND) } else { ExitCode::SUCCESS };
        let text = match flags.output {
            Form::Text => access::doctor(&doctor, program, paint(flags.cluster.color)),
            Form::Json => {
                doctor.advice = doctor.advice.into_iter().map(|it| it.called_by(program)).collect();
                render::json(&doctor)
            }
        };
        say(text.as_bytes());
        Ok(code)
    })
}

pub(super) fn unused(flags: &AccessUnused) -> Result<ExitCode, Problem> {
    block_on(async {
        let reader = connect(&flags.cluster, None).await?;
        let rights = Rights::read(&reader, &[], tenure_host::expressions()).await?;
        let mut grants = rights.unused_grants();
        grants.retain(|grant| flags.namespace.as_ref().is_none_or(|it| grant.namespace == *it));
        let text = match flags.output {
            Form::Text => access::unused_grants(&grants, paint(flags.cluster.color)),
            Form::Json => render::json(&grants),
        };
        say(text.as_bytes());
        Ok(if grants.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
    })
}
