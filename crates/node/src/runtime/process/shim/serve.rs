//! The loop of a shim: output goes to the log and to those who read along, the end is recorded. What
//! they ask for is answered elsewhere.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, WaitOptions};

use super::{LOOK, PeerConnection, Shim, ShimPeer};
use crate::clock;
use crate::runtime::process::log::OutputStream;
use crate::runtime::process::wire::{self, Exited, Inbox, ShimResponse};
use crate::runtime::process::{cgroup, init, state};

/// How long the last output of a container that ended is waited for.
const DRAIN: Duration = Duration::from_secs(2);

/// Who has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PollSource {
    Init,
    Listener,
    Output(usize),
    Connection(usize),
    Command(usize),
    Tap(usize),
}

impl Shim {
    /// The loop, until the container ends.
    pub(super) fn serve(&mut self) {
        let folder = std::fs::File::open(&self.order.folder);
        loop {
            let left = self.kill_at.map(|at| at.saturating_duration_since(clock::instant()));
            let ready = self.wait(Some(left.unwrap_or(LOOK).min(LOOK)));
            self.act(&ready);
            if ready.contains(&PollSource::Init) {
                break;
            }
            if self.kill_at.is_some_and(|at| at <= clock::instant()) {
                // Once: what is not gone by then will not be by asking again at once.
                self.kill_at = None;
                let _ = self.kill_all();
            }
            // Without its folder nobody will ever find this container again.
            let gone = |folder: &std::fs::File| {
                rustix::fs::fstat(folder).is_ok_and(|seen| seen.st_nlink == 0)
            };
            if ready.is_empty() && folder.as_ref().is_ok_and(gone) {
                let _ = rustix::process::kill_process(self.init, Signal::KILL);
            }
        }
        let status = rustix::process::waitpid(Some(self.init), WaitOptions::empty());
        let code = match status {
            Ok(Some((_, status))) => init::code(status),
            _ => 137,
        };
        let finished = clock::timestamp();
        if !self.order.walls.own_processes() {
            init::end_descendants();
        }
        self.drain();
        self.record(code, finished);
    }

    /// Takes the last output; all who could write are gone, unless somebody outside holds a pipe.
    fn drain(&mut self) {
        let end = clock::instant() + DRAIN;
        while clock::instant() < end && (!self.outputs.is_empty() || self.owes_readers()) {
            let ready = self.wait(Some(Duration::from_millis(20)));
            let only: Vec<PollSource> =
                ready.into_iter().filter(|source| *source != PollSource::Init).collect();
            if only.is_empty() && !self.owes_readers() {
                break;
            }
            self.act(&only);
        }
        let now = clock::timestamp();
        if let Some(log) = &mut self.log {
            log.finish(OutputStream::Out, now);
            log.finish(OutputStream::Err, now);
        }
    }

    fn owes_readers(&self) -> bool {
        self.connections.iter().any(|connection| match &connection.role {
            ShimPeer::Reader { taps, .. } => taps.iter().any(|(_, tap)| tap.owes()),
            _ => false,
        })
    }

    fn record(&mut self, code: i32, finished: jiff::Timestamp) {
        let killed = cgroup::out_of_memory(&self.order.groups_of_control);
        let reason = match code {
            0 => "Completed",
            137 if killed => "OOMKilled",
            _ => "Error",
        };
        let exited = Exited {
            started: self.started,
            finished,
            code,
            reason: reason.to_owned(),
            message: String::new(),
        };
        let _ = state::save(&self.order.folder.join("exited.json"), &exited);
        let _ = std::fs::remove_file(self.order.folder.join("shim"));
        for connection in std::mem::take(&mut self.connections) {
            let told = match connection.role {
                ShimPeer::Command { pid, .. } => {
                    let status = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                    let code = status.ok().flatten().map_or(137, |(_, status)| init::code(status));
                    ShimResponse::Ended(code)
                }
                ShimPeer::Reader { .. } => ShimResponse::Ended(code),
                ShimPeer::Agent | ShimPeer::Follower => ShimResponse::Exited(exited.clone()),
            };
            let _ = wire::send(&connection.socket, &told, &[]);
        }
        self.clear_groups();
    }

    /// Waits until somebody has something.
    fn wait(&self, limit: Option<Duration>) -> Vec<PollSource> {
        let mut sources = vec![PollSource::Init];
        let mut polled = vec![PollFd::new(&self.init_held, PollFlags::IN)];
        if let Some(listener) = &self.listener {
            sources.push(PollSource::Listener);
            polled.push(PollFd::new(listener, PollFlags::IN));
        }
        for (index, (_, output)) in self.outputs.iter().enumerate() {
            sources.push(PollSource::Output(index));
            polled.push(PollFd::new(output, PollFlags::IN));
        }
        for (index, connection) in self.connections.iter().enumerate() {
            sources.push(PollSource::Connection(index));
            polled.push(PollFd::new(&connection.socket, PollFlags::IN));
            match &connection.role {
                ShimPeer::Command { held, .. } => {
                    sources.push(PollSource::Command(index));
                    polled.push(PollFd::new(held, PollFlags::IN));
                }
                ShimPeer::Reader { taps, .. } => {
                    for (_, tap) in taps.iter().filter(|(_, tap)| tap.owes()) {
                        sources.push(PollSource::Tap(index));
                        polled.push(PollFd::new(tap.descriptor(), PollFlags::OUT));
                    }
                }
                ShimPeer::Agent | ShimPeer::Follower => {}
            }
        }
        let limit = limit.and_then(|limit| limit.try_into().ok());
        if rustix::event::poll(&mut polled, limit.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = polled.iter().map(|polled| !polled.revents().is_empty());
        sources
            .into_iter()
            .zip(ready)
            .filter_map(|(source, ready)| ready.then_some(source))
            .collect()
    }

    fn act(&mut self, ready: &[PollSource]) {
        let mut gone = Vec::new();
        // Output first: a line is in the log before anybody is told that its writer ended.
        let outputs: Vec<usize> = ready
            .iter()
            .filter_map(
                |source| if let PollSource::Output(index) = source { Some(*index) } else { None },
            )
            .collect();
        for index in outputs.into_iter().rev() {
            self.read(index);
        }
        for source in ready {
            match *source {
                PollSource::Listener => self.accept(),
                PollSource::Connection(index) if !self.hear(index) => gone.push(index),
                PollSource::Command(index) if self.ended(index) => gone.push(index),
                PollSource::Tap(index) => self.flush(index),
                _ => {}
            }
        }
        gone.sort_unstable();
        gone.dedup();
        for index in gone.into_iter().rev() {
            let connection = self.connections.remove(index);
            self.leave_by(connection);
        }
    }

    /// Reads what a stream has; forgets it at its end.
    fn read(&mut self, index: usize) {
        let Some((stream, output)) = self.outputs.get(index) else { return };
        let stream = *stream;
        let mut bytes = [0; 32 << 10];
        let got = rustix::io::retry_on_intr(|| rustix::io::read(output, &mut bytes));
        let now = clock::timestamp();
        match got {
            Ok(got) if got > 0 => {
                let bytes = bytes.get(..got).unwrap_or_default();
                if let Some(log) = &mut self.log {
                    log.write(stream, bytes, now);
                }
                self.copy(stream, bytes);
            }
            Err(rustix::io::Errno::AGAIN) => {}
            // A terminal whose last user is gone says so with an error.
            _ => {
                if let Some(log) = &mut self.log {
                    log.finish(stream, now);
                }
                self.outputs.remove(index);
            }
        }
    }

    fn copy(&mut self, stream: OutputStream, bytes: &[u8]) {
        for connection in &mut self.connections {
            if let ShimPeer::Reader { taps, .. } = &mut connection.role {
                taps.retain_mut(|(of, tap)| *of != stream || tap.write(bytes));
            }
        }
    }

    fn flush(&mut self, index: usize) {
        if let Some(PeerConnection { role: ShimPeer::Reader { taps, .. }, .. }) =
            self.connections.get_mut(index)
        {
            taps.retain_mut(|(_, tap)| tap.write(&[]));
        }
    }

    fn accept(&mut self) {
        if let Some(listener) = &self.listener
            && let Ok((socket, _)) = listener.accept()
        {
            self.connections.push(PeerConnection {
                socket,
                inbox: Inbox::default(),
                role: ShimPeer::Follower,
            });
        }
    }
}
