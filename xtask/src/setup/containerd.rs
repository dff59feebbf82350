//! A real containerd for tests: Debian's packages unpacked below the build folder, and two images made
//! from them. Nothing is installed into the system and nothing is started; see
//! crates/testing/containerd for who starts it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{answer, oci};
use crate::workspace;

/// What is unpacked. runc links to the library, which is not everywhere.
const PACKAGES: [&str; 4] = ["containerd", "runc", "busybox-static", "libseccomp2"];
/// Programs that must answer, and what each says first.
const PROGRAMS: [(&str, &str); 3] = [
    ("root/usr/bin/containerd", "containerd "),
    ("root/usr/sbin/runc", "runc version "),
    ("root/usr/bin/ctr", "ctr "),
];
/// Rises when the images change for another reason than their sources.
const IMAGES_VERSION: &str = "1";

pub(super) fn run() -> Result<()> {
    let folder = workspace::target()?.join("tools/containerd");
    let pause = workspace::root()?.join("tests/images/pause.rs");
    let sources = std::fs::read(&pause).with_context(|| pause.display().to_string())?;
    let wanted =
        format!("{}\nimages {IMAGES_VERSION} {}\n", PACKAGES.join(" "), oci::digest(&sources));
    let mark = folder.join("installed");
    if std::fs::read_to_string(&mark).is_ok_and(|there| there == wanted) {
        println!("      {}", versions(&folder)?);
        return Ok(());
    }
    println!("      unpacking Debian packages: {}", PACKAGES.join(" "));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(folder.join("packages"))?;
    packages(&folder)?;
    println!("      {}", versions(&folder)?);
    std::fs::create_dir_all(folder.join("images"))?;
    busybox_image(&folder)?;
    pause_image(&folder, &pause)?;
    Ok(std::fs::write(mark, wanted)?)
}

/// Downloads and unpacks; asks for fresh lists when the ones at hand do not do.
fn packages(folder: &Path) -> Result<()> {
    let packages = folder.join("packages");
    let download = || {
        let mut command = Command::new("apt-get");
        command.args(["download", "--quiet"]).args(PACKAGES).current_dir(&packages);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !download() {
        // Without root the lists stay as they are, and the second try says so.
        let _ = Command::new("apt-get").args(["update", "--quiet"]).output();
        ensure!(
            download(),
            "missing: {}; `apt-get download` of Debian brings them, here it fails",
            PACKAGES.join(" ")
        );
    }
    for entry in std::fs::read_dir(&packages)? {
        let mut command = Command::new("dpkg-deb");
        command.arg("-x").arg(entry?.path()).arg(folder.join("root"));
        ensure!(command.status()?.success(), "dpkg-deb cannot unpack a package");
    }
    Ok(std::fs::remove_dir_all(&packages)?)
}

/// What the programs say about themselves, in one line.
fn versions(folder: &Path) -> Result<String> {
    let mut all = Vec::new();
    for (path, begins) in PROGRAMS {
        let text = Command::new(folder.join(path))
            .arg("--version")
            .env("LD_LIBRARY_PATH", folder.join("root").join(libraries(folder)?))
            .output()
            .ok()
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .filter(|text| text.starts_with(begins))
            .with_context(|| {
                format!("`{path}` does not answer; remove {} and try again", folder.display())
            })?;
        let first = text.lines().next().unwrap_or_default();
        all.push(first.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
    }
    Ok(all.join(", "))
}

/// The folder of libraries, whose name has the architecture in it.
fn libraries(folder: &Path) -> Result<String> {
    let lib = folder.join("root/usr/lib");
    for entry in std::fs::read_dir(&lib).with_context(|| lib.display().to_string())? {
        let entry = entry?;
        if entry.path().join("libseccomp.so.2").exists() {
            return Ok(format!("usr/lib/{}", entry.file_name().to_string_lossy()));
        }
    }
    anyhow::bail!("no libseccomp below {}", lib.display())
}

/// Debian's static busybox with a link for each of its commands.
fn busybox_image(folder: &Path) -> Result<()> {
    let busybox = folder.join("root/bin/busybox");
    let commands = answer(&busybox, &["--list"]).context("busybox lists its commands")?;
    let mut tar = oci::Tar::default();
    for name in
        ["bin/", "dev/", "etc/", "proc/", "root/", "run/", "sys/", "usr/", "usr/bin/", "var/"]
    {
        tar.folder(name, 0o755)?;
    }
    tar.folder("tmp/", 0o1777)?;
    tar.file("bin/busybox", 0o755, &std::fs::read(&busybox)?)?;
    for command in commands.lines().filter(|command| *command != "busybox") {
        tar.link(&format!("bin/{command}"), "busybox")?;
    }
    tar.link("usr/bin/env", "../../bin/busybox")?;
    tar.file(
        "etc/passwd",
        0o644,
        b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    )?;
    tar.file("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n")?;
    let run = json!({"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["sh"]});
    let archive = oci::archive("localhost/busybox:1", &tar.finish(), &run)?;
    Ok(std::fs::write(folder.join("images/busybox.tar"), archive)?)
}

/// The program that holds a sandbox open, built by rustc alone.
fn pause_image(folder: &Path, source: &Path) -> Result<()> {
    let program = folder.join("pause");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args([
        "--edition",
        "2024",
        "--crate-type",
        "bin",
        "-C",
        "panic=abort",
        "-C",
        "opt-level=s",
    ]);
    rustc.args(["-C", "relocation-model=static", "-C", "strip=symbols"]);
    for argument in ["-nostartfiles", "-nostdlib", "-static"] {
        rustc.args(["-C", &format!("link-arg={argument}")]);
    }
    rustc.arg("-o").arg(&program).arg(source).current_dir(workspace::root()?);
    ensure!(rustc.status()?.success(), "rustc cannot build {}", source.display());
    let mut tar = oci::Tar::default();
    tar.file("pause", 0o755, &std::fs::read(&program)?)?;
    let archive =
        oci::archive("localhost/pause:1", &tar.finish(), &json!({"Entrypoint": ["/pause"]}))?;
    Ok(std::fs::write(folder.join("images/pause.tar"), archive)?)
}
