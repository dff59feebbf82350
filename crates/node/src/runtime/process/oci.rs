//! Folders given as images: files as they are, or an OCI layout whose layers are unpacked once. No
//! registry is ever asked.
//!
//! ```text
//!   <cache>/<digest>/root       what the layers hold
//!                   /files      what files that are
//!                   /complete   says that they all are there, and that their digests are right
//!          /.<random>           an unpacking that goes on, or one that was cut short
//! ```

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::digest::{self, DigestReader};
use super::image::ResolvedImage;
use super::unpack_progress::{CountingReader, UnpackProgress};
use super::wire::Root;
use super::{entries, tar};
use crate::runtime::{Pulling, RuntimeError};

/// The longest index, manifest or configuration.
const DOCUMENT_MAX: u64 = 8 << 20;

/// Whether a folder is an OCI layout rather than files.
pub(super) fn is_layout(folder: &Path) -> bool {
    folder.join("oci-layout").is_file()
}

/// Whether a layout has an image of this name.
pub(super) fn holds(folder: &Path, name: &str) -> bool {
    let list = read_bounded(&folder.join("index.json"));
    let list = list.and_then(|bytes| Ok(serde_json::from_slice::<Value>(&bytes)?));
    is_layout(folder) && list.is_ok_and(|list| choose(&list, Some(name)).is_some())
}

/// Opens a folder as an image; in a layout with several, the one with this name.
pub(super) fn open(
    folder: &Path,
    name: Option<&str>,
    cache: &Path,
    pulling: &Pulling,
) -> Result<ResolvedImage, RuntimeError> {
    if !is_layout(folder) {
        let path = folder.to_owned();
        return Ok(ResolvedImage {
            root: Root::Folder { path, read_only: false },
            ..ResolvedImage::default()
        });
    }
    let failed = |error: io::Error| RuntimeError::Image {
        reason: "ErrImagePull",
        message: format!("image folder {}: {error}", folder.display()),
    };
    let layout = OciLayout { folder };
    let (digest, manifest) = layout.manifest(name).map_err(failed)?;
    let config = layout.config(&manifest).map_err(failed)?;
    let unpack = |root: &Path| {
        pulling.begin();
        layout.unpack(&manifest, root)
    };
    let root = entries::get(cache, &digest, unpack).map_err(failed)?;
    let words = |name: &str| -> Vec<String> {
        let list = config.get(name).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let word = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(ResolvedImage {
        root: Root::Folder { path: root, read_only: false },
        entrypoint: words("Entrypoint"),
        command: words("Cmd"),
        env: words("Env"),
        directory: word("WorkingDir"),
        user: word("User"),
    })
}

struct OciLayout<'a> {
    folder: &'a Path,
}

impl OciLayout<'_> {
    fn blob(&self, digest: &str) -> io::Result<PathBuf> {
        let (kind, number) = digest.split_once(':').unwrap_or_default();
        let fits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric());
        if fits(kind) && fits(number) {
            Ok(self.folder.join("blobs").join(kind).join(number))
        } else {
            Err(io::Error::other(format!("{digest:?} is no digest")))
        }
    }

    /// A manifest or a configuration: what its digest says, or an error.
    fn read(&self, digest: &str) -> io::Result<Value> {
        let bytes = read_bounded(&self.blob(digest)?)?;
        digest::check(digest, &bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// The manifest of the image, through lists of platforms where there are any.
    fn manifest(&self, name: Option<&str>) -> io::Result<(String, Value)> {
        let mut list: Value =
            serde_json::from_slice(&read_bounded(&self.folder.join("index.json"))?)?;
        let mut name = name;
        for _ in 0..4 {
            let chosen = choose(&list, name.take())
                .ok_or_else(|| io::Error::other("it holds no such image"))?;
            let manifest = self.read(&chosen)?;
            if manifest.get("layers").is_some() {
                return Ok((chosen, manifest));
            }
            list = manifest;
        }
        Err(io::Error::other("it holds lists of lists"))
    }

    fn config(&self, manifest: &Value) -> io::Result<Value> {
        let digest = manifest.pointer("/config/digest").and_then(Value::as_str).unwrap_or_default();
        Ok(self.read(digest)?.get("config").cloned().unwrap_or_default())
    }

    /// Unpacks every layer. What has another digest than it should is found when it is read to its end,
    /// so nobody uses the folder before this is done.
    fn unpack(&self, manifest: &Value, root: &Path) -> io::Result<()> {
        let layers = || manifest.get("layers").and_then(Value::as_array).into_iter().flatten();
        let digest_of = |layer: &Value| {
            layer.get("digest").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let length =
            |layer| Some(std::fs::metadata(self.blob(&digest_of(layer)).ok()?).ok()?.len());
        let packed_bytes = layers().filter_map(length).sum();
        let progress = UnpackProgress::begin(self.folder, layers().count(), packed_bytes);
        for layer in layers() {
            let digest = digest_of(layer);
            let kind = layer.get("mediaType").and_then(Value::as_str).unwrap_or_default();
            if kind.ends_with("zstd") {
                return Err(io::Error::other("layers packed with zstd are not read"));
            }
            let file = std::fs::File::open(self.blob(&digest)?)?;
            let read = |count| progress.read(count);
            let mut packed = DigestReader::new(&digest, CountingReader::new(file, read))?;
            let file = io::BufReader::new(&mut packed);
            let wrote = |count| progress.unpacked(count);
            let unpacked = if kind.ends_with("gzip") {
                let plain = flate2::bufread::MultiGzDecoder::new(file);
                tar::unpack(CountingReader::new(plain, wrote), root)
            } else {
                tar::unpack(CountingReader::new(file, wrote), root)
            };
            // A layer with another digest is told as that, whatever else is wrong with it.
            packed.finish()?;
            unpacked?;
        }
        progress.end();
        Ok(())
    }
}

/// A file of a layout that describes others. It is read whole, so it may not be long.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(DOCUMENT_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DOCUMENT_MAX {
        return Err(io::Error::other(format!("{} is too long", path.display())));
    }
    Ok(bytes)
}

/// The digest of the image with this name, or of the one for this machine.
fn choose(list: &Value, name: Option<&str>) -> Option<String> {
    let all: Vec<&Value> = list.get("manifests")?.as_array()?.iter().collect();
    let named = |entry: &&&Value| {
        let notes = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];
        let mut names =
            notes.iter().filter_map(|note| entry.get("annotations")?.get(note)?.as_str());
        names.any(|found| Some(found) == name)
    };
    let fits = |entry: &&&Value| {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let says = |key: &str| entry.get("platform")?.get(key)?.as_str();
        says("architecture") == Some(architecture) && says("os") == Some("linux")
    };
    let chosen = match name {
        Some(_) => all.iter().find(named),
        None => all.iter().find(fits).or(all.first()),
    };
    Some(chosen?.get("digest")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;
    use serde_json::json;
    use std::io::Write as _;

    fn entry(name: &str, kind: u8, link: &str, bytes: &[u8]) -> Vec<u8> {
        let mut head = [0_u8; 512];
        head[..name.len()].copy_from_slice(name.as_bytes());
        head[100..107].copy_from_slice(b"0000755");
        head[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        head[156] = kind;
        head[157..157 + link.len()].copy_from_slice(link.as_bytes());
        head[257..262].copy_from_slice(b"ustar");
        let mut all = head.to_vec();
        all.extend_from_slice(bytes);
        all.resize(all.len().next_multiple_of(512), 0);
        all
    }

    fn put(blobs: &Path, bytes: &[u8]) -> String {
        let digest = digest::sha256(bytes);
        std::fs::write(blobs.join(digest.strip_prefix("sha256:").unwrap()), bytes).unwrap();
        digest
    }

    /// Changes one byte of the blob that begins like this.
    fn spoil(folder: &Path, begin: &[u8]) {
        for entry in std::fs::read_dir(folder.join("blobs/sha256")).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            if bytes.starts_with(begin) {
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(&path, bytes).unwrap();
                return;
            }
        }
        panic!("no such blob");
    }

    fn layout(layers: &[Vec<u8>]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let blobs = folder.path().join("blobs/sha256");
        std::fs::create_dir_all(&blobs).unwrap();
        std::fs::write(folder.path().join("oci-layout"), "{}").unwrap();
        let mut list = Vec::new();
        for (number, layer) in layers.iter().enumerate() {
            let gzip = number % 2 == 0;
            let kind = format!(
                "application/vnd.oci.image.layer.v1.tar{}",
                if gzip { "+gzip" } else { "" }
            );
            let mut bytes = layer.clone();
            if gzip {
                let mut packed =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                packed.write_all(layer).unwrap();
                bytes = packed.finish().unwrap();
            }
            list.push(json!({"mediaType": kind, "digest": put(&blobs, &bytes)}));
        }
        let config = json!({"config": {"Entrypoint": ["/bin/tool"], "Cmd": ["x"], "Env": ["A=b"], "User": "7:8", "WorkingDir": "/w"}});
        let config = put(&blobs, config.to_string().as_bytes());
        let manifest = json!({"config": {"digest": config}, "layers": list});
        let manifest = put(&blobs, manifest.to_string().as_bytes());
        let notes = json!({"org.opencontainers.image.ref.name": "example.com/tool:1"});
        let index = json!({"manifests": [{"digest": manifest, "annotations": notes}]});
        std::fs::write(folder.path().join("index.json"), index.to_string()).unwrap();
        folder
    }

    #[test]
    fn r140_a_layout_is_unpacked_layer_by_layer() {
        let first = [
            entry("bin/", b'5', "", b""),
            entry("bin/tool", b'0', "", b"one"),
            entry("bin/gone", b'0', "", b"x"),
            entry("old/a", b'0', "", b"x"),
            entry("link", b'2', "bin", b""),
        ];
        let second = [
            entry("bin/.wh.gone", b'0', "", b""),
            entry("old/.wh..wh..opq", b'0', "", b""),
            entry("old/b", b'0', "", b"new"),
            entry("link/more", b'0', "", b"two"),
            entry("bin/same", b'1', "bin/tool", b""),
        ];
        let folder = layout(&[first.concat(), second.concat()]);
        let cache = tempfile::tempdir().unwrap();
        let found =
            open(folder.path(), Some("example.com/tool:1"), cache.path(), &Pulling::default())
                .unwrap();
        let Root::Folder { path, .. } = &found.root else { panic!("{found:?}") };
        let read = |name: &str| std::fs::read_to_string(path.join(name)).ok();
        assert_eq!(read("bin/tool").as_deref(), Some("one"));
        assert_eq!(read("bin/same").as_deref(), Some("one"));
        assert_eq!(read("bin/more").as_deref(), Some("two"));
        assert_eq!(read("old/b").as_deref(), Some("new"));
        assert_eq!((read("bin/gone"), read("old/a")), (None, None));
        assert_eq!(found.entrypoint, ["/bin/tool"]);
        assert_eq!(
            (found.command.len(), found.user.as_str(), found.directory.as_str()),
            (1, "7:8", "/w")
        );
        assert!(
            open(folder.path(), Some("example.com/other:1"), cache.path(), &Pulling::default())
                .is_err()
        );
        assert!(open(folder.path(), None, cache.path(), &Pulling::default()).is_ok());
    }

    #[test]
    fn r140a_what_has_another_digest_than_it_should_is_never_used() {
        for (begin, what) in [
            (b"bin/tool".as_slice(), "a layer"),
            (&[0x1f, 0x8b], "a packed layer"),
            (br#"{"config":{"Cmd""#, "the configuration"),
            (br#"{"config":{"digest""#, "the manifest"),
        ] {
            let first = entry("a", b'0', "", b"one");
            let second = entry("bin/tool", b'0', "", b"two");
            let folder = layout(&[first, second]);
            let cache = tempfile::tempdir().unwrap();
            spoil(folder.path(), begin);
            let problem = open(folder.path(), None, cache.path(), &Pulling::default())
                .unwrap_err()
                .to_string();
            assert!(problem.contains("digest"), "{what}: {problem}");
            let left = std::fs::read_dir(cache.path()).unwrap().count();
            assert_eq!(left, 0, "{what} leaves nothing");
        }
    }

    #[test]
    fn r140a_an_image_that_was_not_unpacked_to_its_end_is_unpacked_again() {
        let folder = layout(&[entry("bin/tool", b'0', "", b"one")]);
        let cache = tempfile::tempdir().unwrap();
        let root =
            || match open(folder.path(), None, cache.path(), &Pulling::default()).unwrap().root {
                Root::Folder { path, .. } => path,
                Root::Host => panic!("the node's files"),
            };
        let first = root();
        std::fs::remove_file(first.join("bin/tool")).unwrap();
        std::fs::remove_file(first.parent().unwrap().join("complete")).unwrap();
        assert_eq!(std::fs::read_to_string(root().join("bin/tool")).unwrap(), "one");
        // As an agent left it that knew no mark: the files themselves under the digest.
        let entry = first.parent().unwrap();
        std::fs::remove_dir_all(entry).unwrap();
        std::fs::create_dir_all(entry.join("bin")).unwrap();
        assert_eq!(std::fs::read_to_string(root().join("bin/tool")).unwrap(), "one");
    }

    #[test]
    fn r140a_askers_at_the_same_moment_get_the_whole_image() {
        let files: Vec<_> =
            (0..200).map(|number| entry(&format!("f/{number}"), b'0', "", b"x")).collect();
        let folder = layout(&[files.concat()]);
        for _ in 0..5 {
            let cache = tempfile::tempdir().unwrap();
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        let found =
                            open(folder.path(), None, cache.path(), &Pulling::default()).unwrap();
                        let Root::Folder { path, .. } = found.root else { panic!("no folder") };
                        assert_eq!(std::fs::read_dir(path.join("f")).unwrap().count(), 200);
                    });
                }
            });
            assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn r140a_a_layer_that_is_cut_short_is_an_error() {
        let whole = entry("a", b'0', "", &[b'x'; 2000]);
        for length in [700, 100] {
            let folder = layout(&[whole[..length].to_vec()]);
            let cache = tempfile::tempdir().unwrap();
            assert!(
                open(folder.path(), None, cache.path(), &Pulling::default()).is_err(),
                "{length}"
            );
        }
    }

    #[test]
    fn r140_a_layer_cannot_write_outside_its_image() {
        let outside = tempfile::tempdir().unwrap();
        let out = outside.path().to_str().unwrap();
        let layer = [
            entry("escape", b'2', out, b""),
            entry("escape/x", b'0', "", b"inside"),
            entry("up", b'2', "../../../../../..", b""),
            entry("up/tenure-escaped", b'0', "", b"inside"),
        ];
        let folder = layout(&[layer.concat()]);
        let cache = tempfile::tempdir().unwrap();
        assert!(open(folder.path(), None, cache.path(), &Pulling::default()).is_ok());
        assert!(!outside.path().join("x").exists() && !Path::new("/tenure-escaped").exists());
        let climbs = layout(&[entry("../x", b'0', "", b"bad")]);
        assert!(
            open(climbs.path(), None, &cache.path().join("other"), &Pulling::default()).is_err()
        );
        assert!(!cache.path().join("x").exists());
    }
}
