//! Paths of files inside a volume: cleaned, and refused where they would lead out (R62a to R62d, R63).

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

/// The longest path.
pub(crate) const PATH_MAX: usize = 4096;

/// The longest name of a file or folder.
pub(crate) const NAME_MAX: usize = 255;

/// What is wrong with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePathError {
    /// It is empty.
    Empty,
    /// It begins at the root.
    Absolute(String),
    /// An element is `..`.
    Backstep(String),
    /// It begins with `..`, which is the writer's own.
    Reserved(String),
    /// It is longer than 4096 bytes.
    TooLong,
    /// An element is longer than 255 bytes.
    NameTooLong,
    /// It has a NUL byte.
    Nul,
    /// It is the volume itself.
    Itself(String),
}

impl fmt::Display for FilePathError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("invalid path: ")?;
        match self {
            FilePathError::Empty => out.write_str("must not be empty: \"\""),
            FilePathError::Absolute(path) => write!(out, "must be relative path: {path}"),
            FilePathError::Backstep(path) => write!(out, "must not contain '..': {path}"),
            FilePathError::Reserved(path) => write!(out, "must not start with '..': {path}"),
            FilePathError::TooLong => {
                write!(out, "must be less than or equal to {PATH_MAX} characters")
            }
            FilePathError::NameTooLong => {
                write!(out, "filenames must be less than or equal to {NAME_MAX} characters")
            }
            FilePathError::Nul => out.write_str("must not contain a NUL byte"),
            FilePathError::Itself(path) => write!(out, "must name a file, not the volume: {path}"),
        }
    }
}

impl core::error::Error for FilePathError {}

/// The path without `.` and empty elements, if it stays inside the volume.
///
/// # Errors
/// It is empty, absolute, too long, leads out or begins with `..`.
pub fn clean_path(path: &str) -> Result<String, FilePathError> {
    if path.is_empty() {
        return Err(FilePathError::Empty);
    }
    if path.starts_with('/') {
        return Err(FilePathError::Absolute(path.to_owned()));
    }
    if path.len() > PATH_MAX {
        return Err(FilePathError::TooLong);
    }
    if path.contains('\0') {
        return Err(FilePathError::Nul);
    }
    let mut clean = String::with_capacity(path.len());
    for element in path.split('/') {
        match element {
            ".." => return Err(FilePathError::Backstep(path.to_owned())),
            "" | "." => continue,
            element if element.len() > NAME_MAX => return Err(FilePathError::NameTooLong),
            _ => {}
        }
        if !clean.is_empty() {
            clean.push('/');
        }
        clean.push_str(element);
    }
    if clean.starts_with("..") {
        return Err(FilePathError::Reserved(path.to_owned()));
    }
    if clean.is_empty() {
        return Err(FilePathError::Itself(path.to_owned()));
    }
    Ok(clean)
}
