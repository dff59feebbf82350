//! Images as archives of the Open Container Initiative: one layer, one configuration, one manifest,
//! all named by their digests. Two runs over the same files give the same bytes. What goes into an
//! image is decided elsewhere.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

const BLOCK: usize = 512;
/// What a name in a plain tar header can hold.
const NAME_MAX: usize = 100;

/// An archive in the plain format that every tar reads.
#[derive(Default)]
pub(super) struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    /// Adds a folder; its name ends with a slash.
    pub(super) fn folder(&mut self, name: &str, mode: u32) -> Result<()> {
        self.entry(name, b'5', mode, "", &[])
    }

    /// Adds a file.
    pub(super) fn file(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entry(name, b'0', mode, "", content)
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, name: &str, to: &str) -> Result<()> {
        self.entry(name, b'2', 0o777, to, &[])
    }

    /// The archive with its two closing blocks.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend([0; 2 * BLOCK]);
        self.bytes
    }

    fn entry(&mut self, name: &str, kind: u8, mode: u32, to: &str, content: &[u8]) -> Result<()> {
        ensure!(name.len() < NAME_MAX && to.len() < NAME_MAX, "`{name}` is too long for an image");
        let mut header = Vec::with_capacity(BLOCK);
        let mut field = |text: &str, width: usize| {
            header.extend_from_slice(text.as_bytes());
            header.resize(header.len() + width.saturating_sub(text.len()), 0);
        };
        field(name, NAME_MAX);
        field(&format!("{mode:07o}"), 8);
        field("0000000", 8);
        field("0000000", 8);
        field(&format!("{:011o}", content.len()), 12);
        field("00000000000", 12);
        // The sum counts its own place as blanks.
        field("        ", 8);
        field(&char::from(kind).to_string(), 1);
        field(to, NAME_MAX);
        field("ustar\u{0}00", 8);
        field("", BLOCK - 265);
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        let place = header.get_mut(148..156).context("a header has a sum")?;
        place.copy_from_slice(format!("{sum:06o}\u{0} ").as_bytes());
        self.bytes.extend(header);
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        Ok(())
    }
}

/// An image archive with one layer. `run` is the part of the configuration that says what to run.
pub(super) fn archive(name: &str, layer: &[u8], run: &Value) -> Result<Vec<u8>> {
    let tag = name.rsplit_once(':').context("an image name has a tag")?.1;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created_by": "cargo xtask setup"}],
    });
    let config = serde_json::to_vec(&config)?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described("application/vnd.oci.image.config.v1+json", &config),
        "layers": [described("application/vnd.oci.image.layer.v1.tar", layer)],
    }))?;
    let index = json!({"schemaVersion": 2, "manifests": [{
        "mediaType": MANIFEST,
        "digest": digest(&manifest),
        "size": manifest.len(),
        "annotations": {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": tag,
        },
    }]});
    let index = serde_json::to_vec(&index)?;
    let mut tar = Tar::default();
    tar.folder("blobs/", 0o755)?;
    tar.folder("blobs/sha256/", 0o755)?;
    for blob in [layer, &config, &manifest] {
        tar.file(&format!("blobs/{}", digest(blob).replace(':', "/")), 0o444, blob)?;
    }
    tar.file("index.json", 0o444, &index)?;
    tar.file("oci-layout", 0o444, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(tar.finish())
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn described(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()})
}

/// The name of bytes.
pub(super) fn digest(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_into_an_archive_comes_out_of_it() {
        let mut tar = Tar::default();
        tar.folder("d/", 0o1777).unwrap();
        tar.file("d/f", 0o640, b"content").unwrap();
        tar.link("d/l", "f").unwrap();
        assert!(tar.file(&"long".repeat(30), 0o640, b"").is_err());
        let folder = std::env::temp_dir().join(format!("xtask-tar-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.tar"), tar.finish()).unwrap();
        let mut command = std::process::Command::new("tar");
        let output = command.args(["-tvf", "a.tar"]).current_dir(&folder).output().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(output.status.success() && lines.len() == 3, "{text}");
        assert!(lines[0].starts_with("drwxrwxrwt") && lines[0].ends_with("d/"));
        assert!(lines[1].starts_with("-rw-r-----") && lines[1].contains(" 7 "));
        assert!(lines[2].ends_with("d/l -> f"));
    }

    #[test]
    fn an_image_is_named_by_its_bytes() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest(b""), empty);
        let run = json!({"Cmd": ["sh"]});
        let archive = |layer: &[u8]| archive("localhost/a:1", layer, &run).unwrap();
        assert_eq!(archive(b"layer"), archive(b"layer"));
        assert_ne!(archive(b"layer"), archive(b"other"));
    }
}
