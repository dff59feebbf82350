//! Rules of spec/downward-api.md, section 16: images in OCI layouts, as containers run on them.
#![cfg(target_os = "linux")]

use std::path::Path;

use serde_json::json;
use tenure_node::runtime::process::Images;
use tenure_node::runtime::{ContainerRuntime as _, ImageUser, ImageWanted, Mount, RuntimeError};

use crate::process::{House, is_root, lines, shell};

fn file(name: &str, kind: u8, link: &str, bytes: &[u8]) -> Vec<u8> {
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

/// A layout with one image that runs as this user.
fn layout(folder: &Path, user: &str) {
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let put = |bytes: &[u8]| {
        let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(blobs.join(&hex), bytes).unwrap();
        format!("sha256:{hex}")
    };
    let layer = [
        file("etc/passwd", b'0', "", b"root:x:0:0::/:\napp:x:1234:77::/:\n"),
        file("usr", b'5', "", b""),
        file("bin", b'2', "usr/bin", b""),
        file("lib", b'2', "usr/lib", b""),
        file("lib64", b'2', "usr/lib64", b""),
    ];
    let layer = put(&layer.concat());
    let config = put(json!({"config": {"User": user}}).to_string().as_bytes());
    let kind = "application/vnd.oci.image.layer.v1.tar";
    let layers = json!([{"mediaType": kind, "digest": layer}]);
    let manifest =
        put(json!({"config": {"digest": config}, "layers": layers}).to_string().as_bytes());
    std::fs::write(folder.join("oci-layout"), "{}").unwrap();
    let index = json!({"manifests": [{"digest": manifest}]}).to_string();
    std::fs::write(folder.join("index.json"), index).unwrap();
}

#[tokio::test]
async fn r143a_an_image_runs_as_the_user_that_it_names() {
    let files = tempfile::tempdir().unwrap();
    let house = House::with(|settings| {
        let given = |name: &str, user: &str| {
            let folder = files.path().join(name);
            layout(&folder, user);
            (Some(name.to_owned()), folder)
        };
        let folders = vec![given("named", "app"), given("nobody", "who"), given("number", "7:8")];
        settings.images = Images { folders, ..Images::default() };
    })
    .await;
    for (name, user) in [
        ("named", Some(ImageUser::Name("app".to_owned()))),
        ("nobody", Some(ImageUser::Name("who".to_owned()))),
        ("number", Some(ImageUser::Number(7))),
    ] {
        let wanted = ImageWanted::new(&format!("{name}:1"), "Never");
        assert_eq!(house.runtime.image(&wanted).await.unwrap().uid, user);
    }
    let config = |image: &str, script: &str| {
        let mut config = shell(script);
        config.image = format!("{image}:1");
        let usr = Mount { at: "/usr".to_owned(), from: "/usr".into(), ..Mount::default() };
        config.mounts.push(Mount { read_only: true, ..usr });
        config
    };
    let sandbox = house.sandbox("nobody").await;
    let refused = house.runtime.create(&sandbox, &config("nobody", "id -u")).await.unwrap_err();
    assert!(
        matches!(&refused, RuntimeError::Failed(why) if why.contains("unable to find user who")),
        "{refused}"
    );
    // Whom the pod names need not be known to the image.
    let mut given = config("nobody", "true");
    given.security.uid = Some(5);
    let id = house.runtime.create(&sandbox, &given).await.unwrap();
    house.runtime.remove(&id).await.unwrap();
    if !is_root() {
        println!("an ordinary user has no groups to give");
        return;
    }
    for (image, said) in [("named", "1234\n77"), ("number", "7\n8")] {
        let sandbox = house.sandbox(image).await;
        let config = config(image, "id -u; id -g");
        let id = house.runtime.create(&sandbox, &config).await.unwrap();
        house.runtime.start(&id).await.unwrap();
        assert_eq!(house.ended(&id).await.0, 0, "{}", house.log(image));
        assert_eq!(lines(&house.log(image)), said);
    }
}

#[tokio::test]
async fn r111a_a_setting_of_the_kernel_is_not_taken_and_forgotten() {
    let house = House::new().await;
    let mut config = house.sandbox_config("tuned");
    config.sysctls = [("net.ipv4.tcp_rmem".to_owned(), "4096 4096 4096".to_owned())].into();
    let refused = house.runtime.run_sandbox(&config).await.unwrap_err();
    assert!(
        matches!(&refused, RuntimeError::Refused(why) if why.contains("tcp_rmem")),
        "{refused}"
    );
}

#[tokio::test]
async fn r143d_a_handler_of_a_runtime_class_is_not_taken_and_forgotten() {
    let house = House::new().await;
    let mut config = house.sandbox_config("sandboxed");
    config.handler = "gvisor".to_owned();
    let refused = house.runtime.run_sandbox(&config).await.unwrap_err();
    assert!(
        matches!(&refused, RuntimeError::Refused(why) if why.contains("\"gvisor\"")),
        "{refused}"
    );
}

#[tokio::test]
async fn r111a_a_pod_has_the_setting_of_its_own_memory_segments() {
    const PATH: &str = "/proc/sys/kernel/shm_rmid_forced";
    let machine = std::fs::read_to_string(PATH).unwrap();
    let house = House::new().await;
    for (pod, name, value) in
        [("dots", "kernel.shm_rmid_forced", "1"), ("slashes", "kernel/shm_rmid_forced", "0")]
    {
        let mut config = house.sandbox_config(pod);
        config.sysctls = [(name.to_owned(), value.to_owned())].into();
        let sandbox = house.runtime.run_sandbox(&config).await.unwrap().id;
        // The second container has the segments of the first.
        for container in ["first", "second"] {
            let mut config = shell(&format!("cat {PATH}; sleep 1"));
            (config.name, config.log) = (container.to_owned(), format!("{container}/0.log").into());
            let id = house.runtime.create(&sandbox, &config).await.unwrap();
            house.runtime.start(&id).await.unwrap();
        }
        for container in ["first", "second"] {
            let log = config.logs.join(container).join("0.log");
            let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
            let read = || std::fs::read_to_string(&log).unwrap_or_default();
            while read().is_empty() && std::time::Instant::now() < end {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            assert_eq!(lines(&read()), value, "{pod} {container}");
        }
    }
    assert_eq!(std::fs::read_to_string(PATH).unwrap(), machine, "the machine keeps its own");
}
