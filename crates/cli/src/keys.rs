//! `tenure keys`: the keys that sign service-account tokens, in the data folder of a stopped server.

use tenure_host::HostStartError;
use tenure_host::keys::{self, KeysError};

use crate::flags::{KeysFolder, KeysRemove};
use crate::report::CommandError;
use crate::say;
use crate::up::data_dir;

pub(crate) fn rotate(flags: &KeysFolder) -> Result<(), CommandError> {
    let dir = data_dir(flags.data_dir.clone())?;
    let (new, old) = keys::rotate(&dir).map_err(offline)?;
    say(format!(
        "`{new}` signs from the next start on\n`{old}` still verifies; forget it with \
         `tenure keys remove {old}` when its tokens are gone\n"
    )
    .as_bytes());
    Ok(())
}

pub(crate) fn list(flags: &KeysFolder) -> Result<(), CommandError> {
    let dir = data_dir(flags.data_dir.clone())?;
    let keys = keys::list(&dir)?;
    let width = keys.iter().map(|key| key.id.len()).max().unwrap_or_default();
    let mut text = format!("{:width$}  USE\n", "ID");
    for key in keys {
        let use_ = if key.signs { "signs" } else { "verifies" };
        text += &format!("{:width$}  {use_}\n", key.id);
    }
    say(text.as_bytes());
    Ok(())
}

pub(crate) fn remove(flags: &KeysRemove) -> Result<(), CommandError> {
    let dir = data_dir(flags.data_dir.clone())?;
    keys::remove(&dir, &flags.id).map_err(offline)?;
    say(format!("tokens of `{}` are refused from the next start on\n", flags.id).as_bytes());
    Ok(())
}

/// A folder in use is no surprise here, so the hint says what these commands need.
fn offline(error: KeysError) -> CommandError {
    let locked = match &error {
        KeysError::Folder(error) => match error.as_ref() {
            HostStartError::FolderLocked { path, .. } => Some(path.display().to_string()),
            _ => None,
        },
        _ => None,
    };
    let problem = CommandError::from(error);
    match locked {
        Some(folder) => problem.hint(format!("stop the server that uses `{folder}` first")),
        None => problem,
    }
}
