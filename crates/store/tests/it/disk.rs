//! A disk in memory with two files that remembers every access, can fill up and can lose power.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;
use tenure_store::{FileLog, FileOptions, LogOpenError};

/// The unit that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// One access that changes the disk, or makes changes durable.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

/// What the files of a disk hold: the database and the journal.
pub(crate) type Images = [Vec<u8>; 2];

#[derive(Debug, Default)]
struct State {
    images: Images,
    /// With the file each was for.
    accesses: Vec<(usize, Access)>,
    /// How many more accesses succeed before the disk is full.
    room: Option<usize>,
}

/// A file of the disk; clones are the same file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>, usize);

impl Disk {
    pub(crate) fn with_images(images: Images) -> Disk {
        Disk(Arc::new(Mutex::new(State { images, ..State::default() })), 0)
    }

    /// Opens the log that is kept here.
    pub(crate) fn open(&self, options: FileOptions) -> Result<FileLog, LogOpenError> {
        FileLog::with_storage(self.clone(), self.journal(), options)
    }

    /// The other file of the same disk.
    pub(crate) fn journal(&self) -> Disk {
        Disk(self.0.clone(), 1)
    }

    pub(crate) fn images(&self) -> Images {
        self.state().images.clone()
    }

    pub(crate) fn accesses(&self) -> Vec<(usize, Access)> {
        self.state().accesses.clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.state().accesses.len()
    }

    pub(crate) fn fill_up_after(&self, accesses: usize) {
        self.state().room = Some(accesses);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn change(&self, access: Access) -> io::Result<()> {
        let mut state = self.state();
        if let Some(room) = &mut state.room {
            *room = room.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        }
        apply(&mut state.images[self.1], &access);
        state.accesses.push((self.1, access));
        Ok(())
    }
}

fn apply(image: &mut Vec<u8>, access: &Access) {
    match access {
        Access::Write(offset, data) => {
            let start = usize::try_from(*offset).unwrap();
            image.resize(image.len().max(start + data.len()), 0);
            image[start..start + data.len()].copy_from_slice(data);
        }
        Access::SetLen(len) => image.resize(usize::try_from(*len).unwrap(), 0),
        Access::Sync => {}
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().images[self.1].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let state = self.state();
        let bytes = state.images[self.1].get(start..start + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Access::SetLen(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(Access::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Access::Write(offset, data.to_vec()))
    }
}

/// What happens to changes that were not synced when the power went.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unsynced {
    Lost,
    Kept,
    /// Each sector of each write survives or not, as the seed says.
    Torn(u64),
}

/// Images of a disk that lost power, built while walking once over a recording.
pub(crate) struct PowerCuts<'a> {
    accesses: &'a [(usize, Access)],
    durable: Images,
    durable_upto: [usize; 2],
}

impl<'a> PowerCuts<'a> {
    pub(crate) fn new(accesses: &'a [(usize, Access)]) -> PowerCuts<'a> {
        PowerCuts { accesses, durable: Images::default(), durable_upto: [0; 2] }
    }

    /// The images after a cut behind the first `cut` accesses; cuts must not go backwards. A sync of one
    /// file says nothing about the other.
    pub(crate) fn images(&mut self, cut: usize, unsynced: Unsynced) -> Images {
        [0, 1].map(|file| {
            let of_file = |access: &&(usize, Access)| access.0 == file;
            let synced = self.accesses[..cut]
                .iter()
                .rposition(|a| matches!(a, (of, Access::Sync) if *of == file))
                .map_or(0, |i| i + 1);
            assert!(self.durable_upto[file] <= synced, "cuts go forward");
            let settled = &self.accesses[self.durable_upto[file]..synced];
            for (_, access) in settled.iter().filter(of_file) {
                apply(&mut self.durable[file], access);
            }
            self.durable_upto[file] = synced;
            let mut image = self.durable[file].clone();
            let pending = self.accesses[synced..cut].iter().filter(of_file);
            match unsynced {
                Unsynced::Lost => {}
                Unsynced::Kept => pending.for_each(|(_, access)| apply(&mut image, access)),
                Unsynced::Torn(seed) => {
                    let mut random = Random(seed ^ (cut as u64) << 20 ^ (file as u64) << 40);
                    pending.for_each(|(_, access)| tear(&mut image, access, &mut random));
                }
            }
            image
        })
    }
}

fn tear(image: &mut Vec<u8>, access: &Access, random: &mut Random) {
    let Access::Write(offset, data) = access else {
        if random.next().is_multiple_of(2) {
            apply(image, access);
        }
        return;
    };
    let odds = random.next() % 4;
    let mut done = 0;
    while done < data.len() {
        let place = usize::try_from(*offset).unwrap() + done;
        let end = data.len().min(done + SECTOR_BYTES - place % SECTOR_BYTES);
        // Some writes vanish, some arrive whole, most arrive in part.
        let survives = match odds {
            0 => false,
            1 => true,
            _ => random.next().is_multiple_of(2),
        };
        if survives {
            apply(image, &Access::Write(place as u64, data[done..end].to_vec()));
        }
        done = end;
    }
}

/// Numbers that look random and depend on the seed alone.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
