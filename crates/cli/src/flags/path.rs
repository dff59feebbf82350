//! How flags name files and folders. A name is made absolute here, once: what is started later, and works in
//! another folder, finds the same place. Links and `..` stay as they are written.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::environment;

/// What a flag's value means as a name: stdin or stdout for `-`, below the home folder for `~/`, else below the
/// folder that the command was called in.
pub(crate) fn path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| here(&path))
}

/// The same for the name that is a part of a value.
pub(crate) fn here(path: &Path) -> Result<PathBuf, String> {
    if path == Path::new("-") {
        return Ok(path.to_owned());
    }
    let path = at_home(path);
    std::path::absolute(&path).map_err(|error| format!("the folder you are in is gone: {error}"))
}

/// The same for what a file says: names without a beginning are below the file's folder.
pub(crate) fn relative_to(folder: &Path, path: &str) -> PathBuf {
    match path {
        "-" => PathBuf::from(path),
        path => folder.join(at_home(Path::new(path))),
    }
}

/// Shells put the home folder in for `~/` only at the beginning of a word, so `--data-dir=~/x` comes as it is.
fn at_home(path: &Path) -> Cow<'_, Path> {
    let home = || environment::variable("HOME").filter(|home| Path::new(home).is_absolute());
    match path.strip_prefix("~").ok().zip(home()) {
        Some((rest, home)) => Cow::Owned(PathBuf::from(home).join(rest)),
        None => Cow::Borrowed(path),
    }
}

/// The image and the folder of `IMAGE=FOLDER`; a folder alone may have `=` in its name, after a slash.
pub(crate) fn right_of_equals(text: &str) -> (Option<&str>, &str) {
    let is_path = |left: &str| ["/", "./", "../", "~/"].iter().any(|begin| left.starts_with(begin));
    match text.split_once('=') {
        Some((image, folder)) if !image.is_empty() && !is_path(image) => (Some(image), folder),
        _ => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_absolute_and_keep_their_links() {
        let folder = std::env::current_dir().unwrap();
        for (text, wanted) in [
            ("data", folder.join("data")),
            ("./data", folder.join("data")),
            ("a b/c", folder.join("a b/c")),
            ("../data", folder.join("../data")),
            ("/data/../x", PathBuf::from("/data/../x")),
            ("-", PathBuf::from("-")),
        ] {
            assert_eq!(here(Path::new(text)), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn names_in_a_file_are_below_its_folder() {
        let folder = Path::new("/etc/tenure");
        assert_eq!(relative_to(folder, "data"), Path::new("/etc/tenure/data"));
        assert_eq!(relative_to(folder, "/data"), Path::new("/data"));
        assert_eq!(relative_to(folder, "-"), Path::new("-"));
    }

    #[test]
    fn an_image_is_what_stands_before_a_folder() {
        for (text, wanted) in [
            ("images", (None, "images")),
            ("busybox=images/busybox", (Some("busybox"), "images/busybox")),
            ("reg.io:5000/a/b:1=/x=y", (Some("reg.io:5000/a/b:1"), "/x=y")),
            ("/a=b", (None, "/a=b")),
            ("./a=b", (None, "./a=b")),
            ("~/a=b", (None, "~/a=b")),
            ("=b", (None, "=b")),
        ] {
            assert_eq!(right_of_equals(text), wanted, "{text}");
        }
    }
}
