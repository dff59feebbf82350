//! What an image name means to a runtime without images: the node's own files, a folder, or a clear
//! refusal. Nothing is pulled and nothing is made up.

use std::path::{Path, PathBuf};

use super::wire::Root;
use crate::runtime::{Pulling, RuntimeError};

/// Images whose usual commands are on every Linux machine, and what they run when the pod names no
/// command. They run on the node's files unless a folder is given for them.
const USUAL: [(&str, &[&str]); 14] = [
    ("host", &[]),
    ("busybox", &["sh"]),
    ("registry.k8s.io/busybox", &["sh"]),
    ("registry.k8s.io/e2e-test-images/busybox", &["sh"]),
    ("gcr.io/google_containers/busybox", &["sh"]),
    ("alpine", &["/bin/sh"]),
    ("debian", &["bash"]),
    ("ubuntu", &["bash"]),
    ("bash", &["bash"]),
    ("registry.k8s.io/pause", &["sleep", "infinity"]),
    ("k8s.gcr.io/pause", &["sleep", "infinity"]),
    ("gcr.io/google_containers/pause", &["sleep", "infinity"]),
    ("public.ecr.aws/docker/library/busybox", &["sh"]),
    ("localhost/busybox", &["sh"]),
];

/// Images the agent was told about.
#[derive(Debug, Clone, Default)]
pub struct Images {
    /// `--image-map`: an image, or a pattern with `*`, and the command it runs by itself. All of
    /// them run on the node's files.
    pub map: Vec<(String, Vec<String>)>,
    /// `--image-dir`: a folder that holds images, or one image's folder under its name.
    pub folders: Vec<(Option<String>, PathBuf)>,
    /// Without the images every Linux machine can stand in for.
    pub bare: bool,
}

/// An image as this runtime sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ResolvedImage {
    pub(super) root: Root,
    pub(super) entrypoint: Vec<String>,
    pub(super) command: Vec<String>,
    pub(super) env: Vec<String>,
    pub(super) directory: String,
    pub(super) user: String,
}

impl Images {
    /// Reads `IMAGE` or `IMAGE=COMMAND ARGUMENT …`, a value of `--image-map`.
    #[must_use]
    pub fn parse_map(text: &str) -> (String, Vec<String>) {
        match text.split_once('=') {
            Some((image, command)) => {
                (image.to_owned(), command.split_whitespace().map(str::to_owned).collect())
            }
            None => (text.to_owned(), Vec::new()),
        }
    }

    /// Resolves a name in the order of R140.
    pub(super) fn find(
        &self,
        name: &str,
        cache: &Path,
        pulling: &Pulling,
    ) -> Result<ResolvedImage, RuntimeError> {
        let plain = check(name)?;
        if plain == "host" {
            return Ok(ResolvedImage::default());
        }
        if let Some((_, command)) =
            self.map.iter().find(|(pattern, _)| matches(pattern, name) || matches(pattern, plain))
        {
            return Ok(ResolvedImage { command: command.clone(), ..ResolvedImage::default() });
        }
        if let Some(found) = self.in_folders(name, plain, cache, pulling)? {
            return Ok(found);
        }
        let usual = USUAL.iter().find(|(usual, _)| !self.bare && *usual == plain);
        if let Some((_, command)) = usual {
            let command = command.iter().map(|&part| part.to_owned()).collect();
            return Ok(ResolvedImage { command, ..ResolvedImage::default() });
        }
        Err(RuntimeError::Image {
            reason: "ErrImagePull",
            message: format!(
                "image \"{name}\" is not on this node and the process runtime pulls none: run it on \
                 the node's own files with --image-map {plain}, give its files with --image-dir \
                 {plain}=FOLDER, or run containers with --runtime cri=SOCKET"
            ),
        })
    }

    fn in_folders(
        &self,
        name: &str,
        plain: &str,
        cache: &Path,
        pulling: &Pulling,
    ) -> Result<Option<ResolvedImage>, RuntimeError> {
        for (image, folder) in &self.folders {
            match image {
                Some(image) if matches(image, name) || matches(image, plain) => {
                    return super::oci::open(folder, None, cache, pulling).map(Some);
                }
                Some(_) => {}
                None => {
                    for candidate in [name, plain] {
                        let inner = folder.join(candidate);
                        if inner.is_dir() {
                            return super::oci::open(&inner, None, cache, pulling).map(Some);
                        }
                    }
                    // One that is there and broken is told; no other stands in for it.
                    if super::oci::holds(folder, name) {
                        return super::oci::open(folder, Some(name), cache, pulling).map(Some);
                    }
                }
            }
        }
        Ok(None)
    }
}

/// The name without registry defaults, tag and digest; a name that no registry would take is an
/// error of its own.
fn check(name: &str) -> Result<&str, RuntimeError> {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-/:@".contains(&byte);
    let invalid = || RuntimeError::Image {
        reason: "InvalidImageName",
        message: format!("couldn't parse image reference \"{name}\": invalid reference format"),
    };
    let untagged = name.split('@').next().unwrap_or_default();
    let plain = match untagged.rsplit_once(':') {
        Some((before, tag)) if !tag.contains('/') => {
            if tag.is_empty() {
                return Err(invalid());
            }
            before
        }
        _ => untagged,
    };
    let segments_fit = plain.split('/').all(|part| !part.is_empty() && part != ".." && part != ".");
    if !segments_fit || !plain.bytes().all(fits) {
        return Err(invalid());
    }
    let short = plain.strip_prefix("docker.io/").unwrap_or(plain);
    Ok(short.strip_prefix("library/").unwrap_or(short))
}

/// Whether a pattern, in which `*` stands for anything, fits a name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(first) = parts.next() else { return false };
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            match rest.find(before) {
                Some(at) => rest = rest.get(at + before.len()..).unwrap_or_default(),
                None => return false,
            }
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    fn reason(images: &Images, name: &str) -> &'static str {
        match images.find(name, Path::new("/nowhere"), &Pulling::default()) {
            Err(RuntimeError::Image { reason, .. }) => reason,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn r140_host_and_mapped_images_are_the_nodes_files() {
        let images = Images {
            map: vec![Images::parse_map("nginx=sleep 5"), Images::parse_map("example.com/*")],
            ..Images::default()
        };
        let cache = Path::new("/nowhere");
        assert_eq!(
            images.find("host", cache, &Pulling::default()).unwrap(),
            ResolvedImage::default()
        );
        assert_eq!(
            images.find("nginx:1.27", cache, &Pulling::default()).unwrap().command,
            ["sleep", "5"]
        );
        assert_eq!(
            images.find("example.com/a/b@sha256:00", cache, &Pulling::default()).unwrap().root,
            Root::Host
        );
        for usual in ["busybox", "busybox:1.36", "docker.io/library/busybox:latest"] {
            assert_eq!(
                images.find(usual, cache, &Pulling::default()).unwrap().command,
                ["sh"],
                "{usual}"
            );
        }
    }

    #[test]
    fn r140_a_folder_of_files_comes_after_the_map_and_before_what_is_usual() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("busybox/bin")).unwrap();
        let mut images =
            Images { folders: vec![(None, folder.path().to_owned())], ..Images::default() };
        let cache = Path::new("/nowhere");
        let path = folder.path().join("busybox");
        let root = Root::Folder { path, read_only: false };
        assert_eq!(images.find("busybox:1", cache, &Pulling::default()).unwrap().root, root);
        images.map.push(("busybox".to_owned(), Vec::new()));
        assert_eq!(images.find("busybox:1", cache, &Pulling::default()).unwrap().root, Root::Host);
    }

    #[test]
    fn r140_any_other_image_fails_and_says_what_to_do() {
        let images = Images::default();
        assert_eq!(reason(&images, "nginx"), "ErrImagePull");
        assert_eq!(reason(&images, "registry.example.com:5000/app:1"), "ErrImagePull");
        let problem =
            images.find("nginx:1", Path::new("/x"), &Pulling::default()).unwrap_err().to_string();
        for hint in ["--image-map nginx", "--image-dir nginx=", "--runtime cri="] {
            assert!(problem.contains(hint), "{problem}");
        }
        let bare = Images { bare: true, ..Images::default() };
        assert_eq!(reason(&bare, "busybox"), "ErrImagePull");
    }

    #[test]
    fn r140_a_name_that_is_none_is_told_apart() {
        for name in ["", "UPPER", "a b", "a/../b", "a//b", "x:"] {
            assert_eq!(reason(&Images::default(), name), "InvalidImageName", "{name}");
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        assert!(matches("a*c", "abc") && matches("*", "x") && matches("a*b*c", "a-b-b-c"));
        assert!(!matches("a*c", "ab") && !matches("a", "ab") && !matches("a*b*c", "a-c"));
    }
}
