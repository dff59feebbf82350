//! Rules of spec/downward-api.md, sections 10 and 12: volumes on a real disk.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_node::runtime::PodKey;
use tenure_node::volume::{
    MountWanted, Payload, PayloadFile, VolumeOptions, VolumeSource, VolumeWanted, Volumes,
};

/// Volumes in a folder of their own; what was mounted goes with them.
struct House {
    folder: TempDir,
    volumes: Volumes,
}

impl Drop for House {
    fn drop(&mut self) {
        self.volumes.close();
    }
}

impl House {
    fn new() -> House {
        let folder = tempfile::tempdir().unwrap();
        let volumes = Volumes::open(options(folder.path())).unwrap();
        House { folder, volumes }
    }

    fn mount(&self, volume: &str, sub_path: &str) -> PathBuf {
        self.try_mount(volume, sub_path).unwrap()
    }

    fn try_mount(&self, volume: &str, sub_path: &str) -> Result<PathBuf, String> {
        let wanted = MountWanted {
            volume: volume.to_owned(),
            at: "/x".to_owned(),
            sub_path: sub_path.to_owned(),
            ..MountWanted::default()
        };
        self.volumes
            .mount(&pod(), &wanted)
            .map(|mount| mount.from)
            .map_err(|error| error.to_string())
    }
}

fn options(root: &Path) -> VolumeOptions {
    VolumeOptions { root: root.to_owned(), ..VolumeOptions::default() }
}

fn pod() -> PodKey {
    PodKey { namespace: "default".to_owned(), name: "pod".to_owned(), uid: "uid-1".to_owned() }
}

fn payload(files: &[(&str, &str)]) -> Payload {
    files
        .iter()
        .map(|(path, text)| {
            let file = PayloadFile { bytes: text.as_bytes().to_vec(), mode: 0o644, owner: None };
            ((*path).to_owned(), file)
        })
        .collect()
}

fn files(payload: Payload, memory: bool) -> VolumeWanted {
    VolumeWanted {
        name: "v".to_owned(),
        source: VolumeSource::Files { payload, memory },
        fs_group: None,
        first_id: 0,
        nested: Vec::new(),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What a program sees below a folder: every file that does not begin with dots, through the links.
fn seen(folder: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("..") {
            continue;
        }
        if entry.path().is_dir() {
            for (inner, text) in seen(&entry.path()) {
                all.insert(format!("{name}/{inner}"), text);
            }
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            all.insert(name, text);
        }
    }
    all
}

fn texts(payload: &Payload) -> BTreeMap<String, String> {
    let text = |file: &PayloadFile| String::from_utf8(file.bytes.clone()).unwrap();
    payload.iter().map(|(path, file)| (path.clone(), text(file))).collect()
}

fn generations(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with("..2")))
        .count()
}

#[test]
fn r63_files_switch_together_and_look_as_upstreams_do() {
    for memory in [false, true] {
        let house = House::new();
        let first = payload(&[("labels", "a=\"1\""), ("nested/deep/x", "1"), ("nested/y", "1")]);
        house.volumes.set_up(&pod(), &files(first.clone(), memory)).unwrap();
        let place = house.mount("v", "");
        assert_eq!(seen(&place), texts(&first));
        let data = std::fs::read_link(place.join("..data")).unwrap();
        let data = data.to_str().unwrap();
        assert!(data.starts_with("..20") && data.len() == "..2026_11_15_02_30_00.1234567890".len());
        assert_eq!(std::fs::read_link(place.join("labels")).unwrap(), Path::new("..data/labels"));
        assert_eq!(std::fs::read_link(place.join("nested")).unwrap(), Path::new("..data/nested"));
        assert_eq!(std::fs::metadata(place.join(data)).unwrap().mode() & 0o7777, 0o755);
        let second = payload(&[("labels", "a=\"2\""), ("other", "1")]);
        house.volumes.set_up(&pod(), &files(second.clone(), memory)).unwrap();
        assert_eq!(seen(&place), texts(&second));
        assert_eq!(house.mount("v", ""), place, "the folder stays the same");
    }
}

#[test]
fn r63_modes_are_exact() {
    let house = House::new();
    let mut wanted = payload(&[("a", "1"), ("b", "2")]);
    wanted.get_mut("a").unwrap().mode = 0o400;
    wanted.get_mut("b").unwrap().mode = 0o666;
    house.volumes.set_up(&pod(), &files(wanted, false)).unwrap();
    let mode = |name: &str| {
        std::fs::metadata(house.mount("v", "").join(name)).unwrap().permissions().mode() & 0o7777
    };
    assert_eq!((mode("a"), mode("b")), (0o400, 0o666));
}

#[test]
fn r63_nothing_changes_on_disk_when_nothing_changed() {
    let house = House::new();
    let set = payload(&[("a", "1")]);
    house.volumes.set_up(&pod(), &files(set.clone(), false)).unwrap();
    let data = || std::fs::read_link(house.mount("v", "").join("..data")).unwrap();
    let before = data();
    house.volumes.set_up(&pod(), &files(set, false)).unwrap();
    assert_eq!(data(), before);
    assert_eq!(generations(&house.mount("v", "")), 1);
}

#[test]
fn r65_an_old_generation_is_gone_after_its_grace() {
    let house = House::new();
    house.volumes.set_up(&pod(), &files(payload(&[("a", "1")]), true)).unwrap();
    let place = house.mount("v", "");
    let held = place.join(std::fs::read_link(place.join("..data")).unwrap()).join("a");
    house.volumes.set_up(&pod(), &files(payload(&[("a", "2")]), true)).unwrap();
    assert_eq!(std::fs::read_to_string(&held).unwrap(), "1", "a reader on the way arrives");
    let end = Instant::now() + Duration::from_secs(10);
    while held.exists() {
        assert!(Instant::now() < end, "it stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(generations(&place), 1);
    assert_eq!(std::fs::read_to_string(place.join("a")).unwrap(), "2");
}

#[test]
fn r65_readers_never_see_a_torn_or_missing_file() {
    let house = House::new();
    let set = |number: usize| {
        let text = format!("{number} ").repeat(200);
        payload(&[("a", &text), ("n/b", &text), ("c", &text)])
    };
    house.volumes.set_up(&pod(), &files(set(0), true)).unwrap();
    let place = house.mount("v", "");
    let stop = AtomicBool::new(false);
    let reads = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let (place, stop, reads) = (&place, &stop, &reads);
            scope.spawn(move || {
                let name = ["a", "n/b", "c"][reader % 3];
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let text = std::fs::read_to_string(place.join(name)).unwrap();
                    let mut words = text.split_whitespace();
                    let number: usize = words.next().unwrap().parse().unwrap();
                    assert_eq!(text, format!("{number} ").repeat(200), "torn");
                    assert!(number >= last, "{number} came after {last}");
                    last = number;
                    reads.fetch_add(1, Ordering::Relaxed);
                    // Eight readers that never rest would leave the writer no processor.
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
        }
        for number in 1..=10_000 {
            house.volumes.set_up(&pod(), &files(set(number), true)).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(reads.load(Ordering::Relaxed) > 10_000);
    assert_eq!(seen(&place), texts(&set(10_000)));
}

/// The agent of the cut test: runs only as a process of its own, and ends itself without a word
/// after so many operations.
#[test]
fn helper_that_is_cut_off() {
    let Ok(root) = std::env::var("TENURE_TEST_CUT_ROOT") else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let (cut, turn) = (number("TENURE_TEST_CUT_AFTER"), number("TENURE_TEST_CUT_TURN"));
    let done = Arc::new(AtomicUsize::new(0));
    let hook = Arc::new(move |_| {
        if done.fetch_add(1, Ordering::Relaxed) + 1 == cut {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        }
    });
    let volumes = Volumes::open_watched(options(Path::new(&root)), Some(hook)).unwrap();
    volumes.set_up(&pod(), &files(cut_set(turn), false)).unwrap();
}

fn cut_set(turn: usize) -> Payload {
    let text = |part: &str| format!("{part}-{turn}");
    let mut set =
        payload(&[("stays", &text("stays")), ("folder/x", &text("x")), ("folder/y", &text("y"))]);
    set.extend(payload(&[(["even", "odd"][turn % 2], &text("own"))]));
    set
}

#[test]
fn r64_r82_a_kill_after_any_operation_leaves_the_old_or_the_new_set() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("pods/uid-1/volumes/v");
    let run = |turn: usize, cut: usize| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "volume::helper_that_is_cut_off", "--nocapture"])
            .env("TENURE_TEST_CUT_ROOT", folder.path())
            .env("TENURE_TEST_CUT_AFTER", cut.to_string())
            .env("TENURE_TEST_CUT_TURN", turn.to_string())
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    assert!(run(0, usize::MAX), "the first write");
    let mut turn = 0;
    let mut cuts = 0;
    for cut in 1.. {
        let (old, new) = (cut_set(turn), cut_set(turn + 1));
        let whole = run(turn + 1, cut);
        through_data(&place, &[&old, &new]);
        for path in ["stays", "folder/x", "folder/y"] {
            let text = std::fs::read_to_string(place.join(path)).unwrap();
            let fits = [&old, &new].iter().any(|set| set[path].bytes == text.as_bytes());
            assert!(fits, "{path} after {cut} operations: {text}");
        }
        // The agent comes back with the same wish.
        assert!(run(turn + 1, usize::MAX), "after a cut at {cut}");
        assert_eq!(seen(&place), texts(&new), "after a cut at {cut}");
        assert!(!place.join("..data_tmp").is_symlink());
        turn += 1;
        cuts += 1;
        if whole {
            break;
        }
    }
    assert!(cuts > 20, "only {cuts} operations were cut");
    std::thread::sleep(Duration::from_millis(2100));
    let volumes = Volumes::open(options(folder.path())).unwrap();
    assert_eq!(generations(&place), 1, "everything but the current generation is gone");
    assert_eq!(seen(&place), texts(&cut_set(turn)));
    volumes.close();
}

/// All files as one reader who opened the switch sees them: one of these sets, whole.
fn through_data(place: &Path, sets: &[&Payload]) {
    let found = seen(&std::fs::canonicalize(place.join("..data")).unwrap());
    assert!(sets.iter().any(|set| texts(set) == found), "a mixture: {found:?}");
}

#[test]
fn r66_a_group_can_read_and_new_files_would_be_its_own() {
    if !is_root() {
        println!("only root may give files to a group");
        return;
    }
    let house = House::new();
    let mut set = payload(&[("n/a", "1")]);
    set.get_mut("n/a").unwrap().mode = 0o400;
    let wanted = VolumeWanted { fs_group: Some(1234), ..files(set, true) };
    house.volumes.set_up(&pod(), &wanted).unwrap();
    let place = house.mount("v", "");
    let file = std::fs::metadata(place.join("n/a")).unwrap();
    assert_eq!((file.gid(), file.mode() & 0o7777), (1234, 0o440));
    let folder = std::fs::metadata(place.join("n")).unwrap();
    assert_eq!((folder.gid(), folder.mode() & 0o7777), (1234, 0o2755));
    let link = std::fs::symlink_metadata(place.join("n")).unwrap();
    assert_eq!(link.gid(), 1234);
    let empty = VolumeWanted {
        name: "e".to_owned(),
        source: VolumeSource::EmptyDir { memory: false, limit: None },
        ..wanted
    };
    house.volumes.set_up(&pod(), &empty).unwrap();
    let folder = std::fs::metadata(house.mount("e", "")).unwrap();
    assert_eq!((folder.gid(), folder.mode() & 0o7777), (1234, 0o2777));
}

#[test]
fn r67_secrets_are_in_memory_and_config_maps_on_disk() {
    if !is_root() {
        println!("only root may mount memory");
        return;
    }
    let house = House::new();
    assert_eq!(house.volumes.memory(), Ok(()));
    let kind = |memory: bool| {
        let mut wanted = files(payload(&[("a", "1")]), memory);
        wanted.name = format!("v-{memory}");
        house.volumes.set_up(&pod(), &wanted).unwrap();
        rustix::fs::statfs(house.mount(&wanted.name, "")).unwrap().f_type
    };
    assert_eq!(kind(true), 0x0102_1994);
    assert_ne!(house.mount("v-true", ""), PathBuf::new());
    let disk = rustix::fs::statfs(house.folder.path()).unwrap().f_type;
    assert_eq!(kind(false), disk);
    let memory = house.folder.path().join("memory");
    assert!(memory.exists());
    house.volumes.tear_down("uid-1").unwrap();
    assert!(!memory.exists(), "memory is given back with the last pod");
    assert_eq!(kind(true), 0x0102_1994);
}

#[test]
fn r146b_a_volume_in_memory_is_there_again_after_a_clean_end() {
    let house = House::new();
    let wanted = VolumeWanted {
        name: "e".to_owned(),
        source: VolumeSource::EmptyDir { memory: true, limit: None },
        ..files(payload(&[]), false)
    };
    let mode = || std::fs::metadata(house.mount("e", "")).unwrap().mode() & 0o7777;
    house.volumes.set_up(&pod(), &wanted).unwrap();
    assert_eq!(mode(), 0o777);
    house.volumes.close();
    house.volumes.set_up(&pod(), &wanted).unwrap();
    assert_eq!(mode(), 0o777, "every user of the pod writes there");
    if is_root() {
        let seen = rustix::fs::statfs(house.mount("e", "")).unwrap();
        assert_eq!(seen.f_type, 0x0102_1994);
    }
    // One that is there stays as it is, and what a pod wrote in a folder is not hidden.
    let file = house.mount("e", "").join("x");
    std::fs::write(&file, "x").unwrap();
    house.volumes.set_up(&pod(), &wanted).unwrap();
    assert!(file.exists());
}

#[test]
fn r68_files_are_read_only_whatever_the_mount_says() {
    let house = House::new();
    house.volumes.set_up(&pod(), &files(payload(&[("a", "1")]), false)).unwrap();
    let empty = VolumeWanted {
        name: "e".to_owned(),
        source: VolumeSource::EmptyDir { memory: false, limit: None },
        fs_group: None,
        first_id: 0,
        nested: Vec::new(),
    };
    house.volumes.set_up(&pod(), &empty).unwrap();
    for (volume, read_only) in [("v", true), ("e", false)] {
        let wanted = MountWanted { volume: volume.to_owned(), ..MountWanted::default() };
        assert_eq!(house.volumes.mount(&pod(), &wanted).unwrap().read_only, read_only);
    }
}

#[test]
fn r69_mount_points_inside_a_volume_are_made_first_and_may_not_climb() {
    let house = House::new();
    let wanted = VolumeWanted {
        nested: vec!["extra/deep".to_owned()],
        ..files(payload(&[("a", "1")]), false)
    };
    house.volumes.set_up(&pod(), &wanted).unwrap();
    assert!(house.mount("v", "").join("extra/deep").is_dir());
    house
        .volumes
        .set_up(
            &pod(),
            &VolumeWanted { source: files(payload(&[("a", "2")]), false).source, ..wanted.clone() },
        )
        .unwrap();
    assert!(house.mount("v", "").join("extra/deep").is_dir());
    let bad = VolumeWanted { name: "w".to_owned(), nested: vec!["../out".to_owned()], ..wanted };
    let error = house.volumes.set_up(&pod(), &bad).unwrap_err().to_string();
    assert!(error.contains("must not contain '..'"), "{error}");
    assert!(!house.folder.path().join("pods/uid-1/volumes/out").exists());
    assert!(!house.folder.path().join("pods/uid-1/volumes/w").exists(), "nothing is left (R81)");
}

#[test]
fn r69a_a_sub_path_is_resolved_anew_at_each_start() {
    let house = House::new();
    house.volumes.set_up(&pod(), &files(payload(&[("labels", "1")]), true)).unwrap();
    let first = house.mount("v", "labels");
    assert!(!first.is_symlink() && first.to_str().unwrap().contains("/..2"), "{first:?}");
    assert_eq!(std::fs::read_to_string(&first).unwrap(), "1");
    house.volumes.set_up(&pod(), &files(payload(&[("labels", "2")]), true)).unwrap();
    assert_eq!(std::fs::read_to_string(house.mount("v", "labels")).unwrap(), "2");
    let error = house.try_mount("v", "missing").unwrap_err();
    assert!(error.starts_with("failed to prepare subPath for volumeMount \"v\""), "{error}");
    for bad in ["../x", "a/../../x", "/etc"] {
        assert!(house.try_mount("v", bad).is_err(), "{bad}");
    }
}

#[test]
fn r69a_a_sub_path_that_leads_out_is_refused() {
    let house = House::new();
    let empty = VolumeWanted {
        name: "e".to_owned(),
        source: VolumeSource::EmptyDir { memory: false, limit: None },
        fs_group: None,
        first_id: 0,
        nested: Vec::new(),
    };
    house.volumes.set_up(&pod(), &empty).unwrap();
    let place = house.mount("e", "");
    assert_eq!(
        house.mount("e", "new/deep"),
        place.join("new/deep"),
        "made where it may be written"
    );
    std::os::unix::fs::symlink("/etc", place.join("absolute")).unwrap();
    std::os::unix::fs::symlink("../../../..", place.join("climbs")).unwrap();
    for bad in ["absolute", "absolute/ssh", "climbs", "climbs/new"] {
        let error = house.try_mount("e", bad).unwrap_err();
        assert!(error.contains("it leads out of the volume"), "{bad}: {error}");
    }
    assert!(!house.folder.path().join("new").exists());
}

#[test]
fn r69c_a_part_that_a_runtime_opens_cannot_be_exchanged_meanwhile() {
    let house = House::new();
    let empty = VolumeWanted {
        first_id: 0,
        name: "e".to_owned(),
        source: VolumeSource::EmptyDir { memory: false, limit: None },
        fs_group: None,
        nested: Vec::new(),
    };
    house.volumes.set_up(&pod(), &empty).unwrap();
    let place = house.mount("e", "");
    let wanted = |sub_path: &str| MountWanted {
        volume: "e".to_owned(),
        at: "/x".to_owned(),
        sub_path: sub_path.to_owned(),
        bound_as: Some("c.0".to_owned()),
        ..MountWanted::default()
    };
    let given = match house.volumes.mount(&pod(), &wanted("x")) {
        Ok(mount) => mount.from,
        Err(error) if rustix::process::geteuid().is_root() => panic!("{error}"),
        Err(error) => {
            // Who may not bind gives no path at all.
            assert!(error.to_string().contains("this agent cannot"), "{error}");
            assert!(!house.folder.path().join("pods/uid-1/subpaths/c.0").exists());
            return;
        }
    };
    std::fs::write(place.join("x/own"), "own").unwrap();
    // What another container of the pod does between the agent's look and the runtime's.
    std::fs::rename(place.join("x"), place.join("y")).unwrap();
    std::os::unix::fs::symlink("/etc", place.join("x")).unwrap();
    assert!(
        given.starts_with(house.folder.path().canonicalize().unwrap().join("pods/uid-1/subpaths"))
    );
    assert_eq!(names_in(&given), ["own"], "the path leads where it led");
    assert!(house.volumes.mount(&pod(), &wanted("x")).is_err(), "the next start sees the link");
    // A new start takes the place over, files are bound as well.
    let again = house.volumes.mount(&pod(), &wanted("y/own")).unwrap().from;
    assert_eq!((&again, std::fs::read_to_string(&again).unwrap()), (&given, "own".to_owned()));
    // An agent that comes back knows what is mounted, and nothing behind a mount is lost.
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("kept"), "kept").unwrap();
    let held = std::fs::File::open(outside.path()).unwrap();
    let other = house.folder.path().join("pods/uid-1/subpaths/d.0");
    std::fs::create_dir(&other).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
    rustix::mount::mount_bind(path.as_str(), &other).unwrap();
    drop(held);
    let returned = Volumes::open(options(house.folder.path())).unwrap();
    returned.tear_down("uid-1").unwrap();
    assert!(!house.folder.path().join("pods/uid-1").exists());
    assert_eq!(std::fs::read_to_string(outside.path().join("kept")).unwrap(), "kept");
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(house.folder.path().to_str().unwrap()), "{mounts}");
}

#[test]
fn r69c_an_empty_folder_is_known_again_whatever_containers_call_their_files() {
    let house = House::new();
    let empty = VolumeWanted {
        first_id: 0,
        name: "e".to_owned(),
        source: VolumeSource::EmptyDir { memory: false, limit: None },
        fs_group: None,
        nested: Vec::new(),
    };
    house.volumes.set_up(&pod(), &empty).unwrap();
    let place = house.mount("e", "");
    for name in ["..x", "..2020_01_01", "..data_tmp"] {
        std::fs::create_dir(place.join(name)).unwrap();
        std::fs::write(place.join(name).join("own"), "own").unwrap();
    }
    std::os::unix::fs::symlink("..2020_01_01", place.join("..data")).unwrap();
    let before = names_in(&place).len();
    for round in ["found again", "and once more"] {
        let returned = Volumes::open(options(house.folder.path())).unwrap();
        assert_eq!(names_in(&place).len(), before, "{round}: nothing of it is the agent's");
        if round == "and once more" {
            returned.set_up(&pod(), &empty).unwrap();
        }
        let wanted = MountWanted {
            volume: "e".to_owned(),
            at: "/x".to_owned(),
            sub_path: "..x".to_owned(),
            bound_as: Some("c.0".to_owned()),
            ..MountWanted::default()
        };
        match returned.mount(&pod(), &wanted) {
            Ok(mount) => {
                let held = house.folder.path().canonicalize().unwrap().join("pods/uid-1/subpaths");
                assert!(mount.from.starts_with(held), "{round}: {mount:?}");
                assert!(!mount.read_only, "{round}");
            }
            Err(error) if is_root() => panic!("{error}"),
            Err(error) => assert!(error.to_string().contains("this agent cannot"), "{error}"),
        }
    }
    house.volumes.tear_down("uid-1").unwrap();
    assert!(!house.folder.path().join("pods/uid-1").exists());
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn r69b_r213_a_writer_cannot_be_led_elsewhere() {
    let house = House::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("x"), "mine").unwrap();
    let first = payload(&[("nested/x", "1")]);
    house.volumes.set_up(&pod(), &files(first, false)).unwrap();
    let place = house.mount("v", "");
    std::fs::remove_file(place.join("nested")).unwrap();
    std::os::unix::fs::symlink(outside.path(), place.join("nested")).unwrap();
    let second = payload(&[("nested/x", "2"), ("nested/y", "2")]);
    house.volumes.set_up(&pod(), &files(second.clone(), false)).unwrap();
    assert_eq!(seen(&place), texts(&second), "the link is the writer's own again");
    // The switch itself, and a folder where a link must be.
    std::fs::remove_file(place.join("..data")).unwrap();
    std::os::unix::fs::symlink(outside.path(), place.join("..data")).unwrap();
    let third = payload(&[("nested/x", "3")]);
    house.volumes.set_up(&pod(), &files(third.clone(), false)).unwrap();
    assert_eq!(seen(&place), texts(&third));
    std::fs::remove_file(place.join("nested")).unwrap();
    std::fs::create_dir(place.join("nested")).unwrap();
    let error = house.volumes.set_up(&pod(), &files(payload(&[("nested/x", "4")]), false));
    assert!(error.unwrap_err().to_string().contains("in the way"));
    let left: Vec<_> = std::fs::read_dir(outside.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(std::fs::read_to_string(outside.path().join("x")).unwrap(), "mine");
}

#[test]
fn r212_the_writer_refuses_paths_that_lead_out_by_itself() {
    let house = House::new();
    for bad in ["../x", "a/../../x", "/etc/x", "..data", "..2026_x/a"] {
        let error =
            house.volumes.set_up(&pod(), &files(payload(&[("fine", "1"), (bad, "1")]), false));
        assert!(error.unwrap_err().to_string().contains("invalid path"), "{bad}");
        assert!(house.try_mount("v", "").is_err(), "{bad}: no volume, no partial set");
    }
}

#[test]
fn r80_r81_a_full_disk_keeps_the_last_good_content_and_a_first_write_leaves_nothing() {
    if !is_root() {
        println!("only root may make a small disk");
        return;
    }
    let house = House::new();
    let disk = house.folder.path().join("small");
    std::fs::create_dir(&disk).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &disk, "tmpfs", flags, c"size=128k").unwrap();
    let volumes = Volumes::open(options(&disk)).unwrap();
    let good = payload(&[("a", "good")]);
    volumes.set_up(&pod(), &files(good.clone(), false)).unwrap();
    let place = volumes
        .mount(&pod(), &MountWanted { volume: "v".to_owned(), ..MountWanted::default() })
        .unwrap()
        .from;
    let big = "x".repeat(300 << 10);
    for _ in 0..3 {
        let error = volumes.set_up(&pod(), &files(payload(&[("a", "new"), ("b", &big)]), false));
        assert!(error.unwrap_err().to_string().contains("No space left"));
        assert_eq!(seen(&place), texts(&good), "the last good content stays");
        assert_eq!(generations(&place), 1, "the new generation is removed");
    }
    let mut other = files(payload(&[("b", &big)]), false);
    other.name = "first".to_owned();
    assert!(volumes.set_up(&pod(), &other).is_err());
    assert!(!disk.join("pods/uid-1/volumes/first").exists());
    let better = payload(&[("a", "better")]);
    volumes.set_up(&pod(), &files(better.clone(), false)).unwrap();
    assert_eq!(seen(&place), texts(&better), "and it heals");
    volumes.close();
    drop(volumes);
    rustix::mount::unmount(&disk, rustix::mount::UnmountFlags::DETACH).unwrap();
}

#[test]
fn r83_volumes_are_found_again_and_not_made_anew() {
    for memory in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let wanted = files(payload(&[("a", "1")]), memory);
        let volumes = Volumes::open(options(folder.path())).unwrap();
        volumes.set_up(&pod(), &wanted).unwrap();
        let mount = MountWanted { volume: "v".to_owned(), ..MountWanted::default() };
        let place = volumes.mount(&pod(), &mount).unwrap().from;
        let inode = std::fs::metadata(&place).unwrap().ino();
        drop(volumes);
        let volumes = Volumes::open(options(folder.path())).unwrap();
        assert_eq!(volumes.pods(), ["uid-1"]);
        let again = volumes.mount(&pod(), &mount).unwrap();
        assert_eq!((again.from.as_path(), again.read_only), (place.as_path(), true));
        assert_eq!(std::fs::metadata(&place).unwrap().ino(), inode, "the same folder");
        let missed = files(payload(&[("a", "2")]), memory);
        volumes.set_up(&pod(), &missed).unwrap();
        assert_eq!(std::fs::read_to_string(place.join("a")).unwrap(), "2");
        volumes.tear_down("uid-1").unwrap();
        assert!(volumes.pods().is_empty());
        volumes.close();
    }
}

#[test]
fn r85_a_pod_that_goes_during_a_write_leaves_nothing() {
    let house = House::new();
    for round in 0..30 {
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 0..20 {
                    let text = format!("{round}-{number}");
                    let _ = house.volumes.set_up(&pod(), &files(payload(&[("a", &text)]), true));
                }
            });
            std::thread::sleep(Duration::from_millis(1));
            house.volumes.tear_down("uid-1").unwrap();
            writer.join().unwrap();
        });
        house.volumes.tear_down("uid-1").unwrap();
        assert!(house.volumes.pods().is_empty());
    }
    house.volumes.tear_down("uid-1").unwrap();
}

#[test]
fn an_empty_folder_keeps_its_content_and_has_a_limit_in_memory() {
    let house = House::new();
    let wanted = |memory: bool, limit: Option<u64>| VolumeWanted {
        name: format!("e-{memory}"),
        source: VolumeSource::EmptyDir { memory, limit },
        fs_group: None,
        first_id: 0,
        nested: Vec::new(),
    };
    house.volumes.set_up(&pod(), &wanted(false, None)).unwrap();
    let place = house.mount("e-false", "");
    std::fs::write(place.join("kept"), "1").unwrap();
    house.volumes.set_up(&pod(), &wanted(false, None)).unwrap();
    assert!(place.join("kept").exists());
    assert_eq!(std::fs::metadata(&place).unwrap().mode() & 0o7777, 0o777);
    if is_root() {
        house.volumes.set_up(&pod(), &wanted(true, Some(64 << 10))).unwrap();
        let place = house.mount("e-true", "");
        std::fs::write(place.join("fits"), vec![0; 32 << 10]).unwrap();
        assert!(std::fs::write(place.join("too much"), vec![0; 128 << 10]).is_err());
    }
    house.volumes.tear_down("uid-1").unwrap();
    assert!(!place.exists() && house.volumes.pods().is_empty());
}

#[test]
fn r147_a_path_of_the_node_is_refused_unless_allowed_and_checked_by_its_kind() {
    let house = House::new();
    let wanted = |path: &str, kind: &str| VolumeWanted {
        name: "h".to_owned(),
        source: VolumeSource::HostPath { path: path.into(), kind: kind.to_owned() },
        fs_group: None,
        first_id: 0,
        nested: Vec::new(),
    };
    let error = house.volumes.set_up(&pod(), &wanted("/etc", "")).unwrap_err().to_string();
    assert!(error.contains("--allow-privileged-process"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let open =
        VolumeOptions { root: folder.path().join("agent"), host_path: true, private: Vec::new() };
    let volumes = Volumes::open(open).unwrap();
    let made = folder.path().join("made");
    volumes.set_up(&pod(), &wanted(made.to_str().unwrap(), "DirectoryOrCreate")).unwrap();
    assert!(made.is_dir());
    for (path, kind, problem) in [
        ("/etc/passwd", "Directory", "is not a directory"),
        ("/etc", "File", "is not a file"),
        ("/etc", "Socket", "is not a socket file"),
        ("/no/such/path", "Directory", "/no/such/path"),
        ("/etc/../root", "", "without '..'"),
    ] {
        let error = volumes.set_up(&pod(), &wanted(path, kind)).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    volumes.close();
}

#[test]
fn r70_a_refresh_takes_milliseconds() {
    let house = House::new();
    let mut times = Vec::new();
    for number in 0..200 {
        let set = payload(&[("labels", &format!("a=\"{number}\"")), ("annotations", "b=\"1\"")]);
        let begin = Instant::now();
        house.volumes.set_up(&pod(), &files(set, true)).unwrap();
        times.push(begin.elapsed());
    }
    times.sort();
    assert!(times[100] < Duration::from_millis(10), "{:?}", &times[90..110]);
}
