//! The world around a QEMU guest: its disks, and the file that its frames go to, in one thread.
//!
//! A guest has a clock of its own here, and every message is a question that stops it. So there is
//! nothing to order: each question is answered by the guest's time that stands in it.

use super::bell::{Bell, Device, Rung};
use crate::disk::Disk;
use crate::outside::{Ending, Limits, Outside, Progress, Watched, readable};
use sim::Control;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use vm_memory::GuestMemoryMmap;

/// The longest time without a turn of the control device, in virtual nanoseconds.
const LEASH: u64 = 100_000_000;
/// Wall time between two checks of a guest that computes, in milliseconds.
const LOOK_MS: i64 = 200;

/// Wall time between two questions for the guest's CPU time, which take a system call a thread.
const ASK: Duration = Duration::from_secs(1);
/// A guest that has neither computed nor moved its time for so many times the patience is given up.
const STUCK: u32 = 10;

/// The name of the control device's socket in a run's folder.
pub const CONTROL: &str = "control";

/// A device's socket until QEMU has connected, and its connection from then on.
enum Port {
    Listens(UnixListener, Option<Device>),
    Rings(Bell),
}

/// The world around a QEMU guest.
pub struct Server {
    memory: GuestMemoryMmap,
    /// The control device, then the disks in order.
    ports: Vec<Port>,
    frames: File,
    now: u64,
}

impl Server {
    /// Makes a world with these disks. Its sockets are in `folder`; bytes that the guest's first
    /// process sends are appended to `frames`.
    ///
    /// # Errors
    /// The sockets can't be made.
    pub fn new(
        folder: &Path,
        memory: GuestMemoryMmap,
        disks: Vec<Disk>,
        frames: File,
    ) -> io::Result<Self> {
        let listener = UnixListener::bind(folder.join(CONTROL))?;
        let mut ports = vec![Port::Listens(listener, Some(Device::Control))];
        for (i, disk) in disks.into_iter().enumerate() {
            let listener = UnixListener::bind(folder.join(crate::server::port_name(i)))?;
            let device = Device::Disk(Box::new(disk), i as u32);
            ports.push(Port::Listens(listener, Some(device)));
        }
        Ok(Self {
            memory,
            ports,
            frames,
            now: 0,
        })
    }

    /// Serves one message of a device. Returns true if the guest has sent bytes.
    fn port(&mut self, i: usize, limit: u64) -> io::Result<bool> {
        let again = |now: u64| {
            let next = now.saturating_add(LEASH);
            if limit > now { next.min(limit) } else { next }
        };
        let port = &mut self.ports[i];
        match port {
            Port::Listens(listener, device) => {
                let socket = listener.accept()?.0;
                let device = device.take().expect("a socket is connected once");
                *port = Port::Rings(Bell::new(socket, device));
                Ok(false)
            }
            Port::Rings(bell) => match bell.serve(&self.memory, &again)? {
                Rung::SetUp => Ok(false),
                Rung::Turn(now) => {
                    self.now = self.now.max(now);
                    Ok(false)
                }
                Rung::Said(now, bytes) => {
                    self.now = self.now.max(now);
                    self.frames.write_all(&bytes)?;
                    Ok(true)
                }
            },
        }
    }
}

impl Outside for Server {
    fn until_it_ends(
        &mut self,
        limits: Limits,
        control: &Control,
        watched: &mut dyn Watched,
    ) -> io::Result<Ending> {
        let mut progress = Progress::new();
        // The guest's CPU time when its virtual time last moved, and when that was asked for.
        let (mut worked, mut asked) = (0, Instant::now());
        loop {
            if let Some(ending) = limits.reached(self.now, control) {
                return Ok(ending);
            }
            if progress.to(self.now) {
                if asked.elapsed() > ASK {
                    (worked, asked) = (watched.cpu_ns(), Instant::now());
                }
                control.sim_ns.store(self.now, Relaxed);
            }
            let fds = self.ports.iter().map(|port| match port {
                Port::Listens(listener, _) => listener.as_fd(),
                Port::Rings(bell) => bell.as_fd(),
            });
            match readable(fds, LOOK_MS)? {
                Some(i) => {
                    if self.port(i, limits.time_ns)? && watched.done() {
                        return Ok(Ending::Done);
                    }
                    if !progress.on_message() {
                        continue;
                    }
                }
                None if !watched.alive() => return Ok(Ending::Gone),
                None => {}
            }
            // A boot takes seconds of CPU before the first message, and more wall time on a busy
            // host: only a guest that has computed for so long hangs, or one that does not compute.
            if let Some(still) = progress.stalled_for(limits.patience) {
                let computed = Duration::from_nanos(watched.cpu_ns().saturating_sub(worked));
                if computed > limits.patience || still > STUCK * limits.patience {
                    return Ok(Ending::Hung(still));
                }
            }
        }
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn disks(&self) -> Vec<&Disk> {
        let devices = self.ports.iter().filter_map(|port| match port {
            Port::Listens(_, device) => device.as_ref(),
            Port::Rings(bell) => Some(&bell.device),
        });
        let disks = devices.filter_map(|device| match device {
            Device::Control => None,
            Device::Disk(disk, _) => Some(&**disk),
        });
        disks.collect()
    }
}
