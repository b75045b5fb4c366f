//! A device of a QEMU guest: its mailbox in the guest's memory, and the bell that tells of it.
//!
//! The device is QEMU's `vhost-user-blk-pci`, of which neither the ring nor interrupts are used. A
//! store of the guest to the byte `wce` of the config space comes as the message SET_CONFIG, and
//! QEMU waits for its acknowledgement inside of that store. The driver (`driver/lowmark.c`) and
//! `driver/lowmark.h` have the other side.

use crate::disk::Disk;
use crate::virtio::{receive, reply};
use sim::block::Dir;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use vhost::vhost_user::VhostUserProtocolFeatures as Protocol;
use vhost::vhost_user::message::FrontendReq;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// The version of the mailbox (`LM_VERSION`).
const VERSION: u32 = 1;
/// The most ended requests in an answer (`LM_ENDED`).
const MOST_ENDED: usize = 64;
/// The most pieces of memory of a request (`LM_SEGMENTS`).
const MOST_SEGMENTS: u32 = 256;
/// Messages that carry the mailbox's page number, with seven bits each.
const PARTS: u32 = 5;
/// Offset of `wce` in the config space of a virtio disk.
const WCE: usize = 32;
/// The largest request of a disk without a model of its own, and of every disk here: what
/// [`MOST_SEGMENTS`] single pages hold.
const MOST_BYTES: u64 = MOST_SEGMENTS as u64 * 4096;
/// `VHOST_USER_F_PROTOCOL_FEATURES` and `VIRTIO_F_VERSION_1`.
const FEATURES: u64 = 1 << 30 | 1 << 32;
/// "Never" as the time of the next turn.
const NEVER: u64 = u64::MAX;

// Offsets in `struct lm_box`.
const AT_ENDED: u64 = 36;
const AT_AGAIN: u64 = 40;
const AT_SECTORS: u64 = 48;
const AT_DEPTH: u64 = 56;
const AT_MOST: u64 = 60;
const AT_FLAGS: u64 = 64;
const AT_INDEX: u64 = 68;
const AT_DONE: u64 = 72;
const AT_SEGMENT: u64 = AT_DONE + 8 * MOST_ENDED as u64;

/// The purpose of a device.
pub enum Device {
    /// The file `/dev/lowmark`, through which the guest's first process sends its frames.
    Control,
    /// A disk, and its number among the guest's disks.
    Disk(Box<Disk>, u32),
}

/// The outcome of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Rung {
    /// A step of the device's setup.
    SetUp,
    /// A turn at this time of the guest's clock, in nanoseconds.
    Turn(u64),
    /// Bytes from the guest, at this time.
    Said(u64, Vec<u8>),
}

/// The question in a mailbox.
struct Question {
    ask: u32,
    version: u32,
    now: u64,
    sector: u64,
    op: u32,
    tag: u32,
    segments: u32,
}

/// A device and its connection with QEMU.
pub struct Bell {
    socket: UnixStream,
    /// The purpose.
    pub device: Device,
    /// The mailbox's page number, as far as it has come.
    page: u64,
    parts: u32,
    ended: Vec<(u32, bool)>,
}

fn broken(what: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("the guest's device: {what}"))
}

impl Bell {
    /// Makes the device at the other end of a socket of QEMU's.
    pub fn new(socket: UnixStream, device: Device) -> Self {
        Self {
            socket,
            device,
            page: 0,
            parts: 0,
            ended: Vec::new(),
        }
    }

    /// Serves the pending message. `again` is when the control device takes its next turn after
    /// one at a given time, in nanoseconds of the guest's clock.
    ///
    /// # Errors
    /// QEMU has gone, the guest's driver is of another version or broken, or the disk's contents
    /// can't be read or written.
    pub fn serve(
        &mut self,
        memory: &GuestMemoryMmap,
        again: &dyn Fn(u64) -> u64,
    ) -> io::Result<Rung> {
        let (head, body, _) = receive(&mut self.socket)?;
        let mut rung = Rung::SetUp;
        let answer = match FrontendReq::try_from(head.request) {
            Ok(FrontendReq::GET_FEATURES) => Some(FEATURES.to_ne_bytes().to_vec()),
            Ok(FrontendReq::GET_PROTOCOL_FEATURES) => {
                let features = Protocol::CONFIG | Protocol::REPLY_ACK;
                Some(features.bits().to_ne_bytes().to_vec())
            }
            Ok(FrontendReq::GET_QUEUE_NUM) => Some(1_u64.to_ne_bytes().to_vec()),
            // The firmware may stop a ring that it has never used.
            Ok(FrontendReq::GET_VRING_BASE) => {
                Some([body.get(..4).unwrap_or(&[0; 4]), &[0; 4]].concat())
            }
            Ok(FrontendReq::GET_CONFIG) => Some(self.config(&body)?),
            Ok(FrontendReq::SET_CONFIG) => {
                let stored = body.get(12).ok_or_else(|| broken("a short message"))?;
                rung = self.rings(stored & 0x7f, memory, again)?;
                None
            }
            _ => None,
        };
        match answer {
            Some(body) => reply(&mut self.socket, head.request, &body)?,
            None if head.wants_reply() => {
                reply(&mut self.socket, head.request, &0_u64.to_ne_bytes())?;
            }
            None => {}
        }
        Ok(rung)
    }

    /// Answers QEMU's own look at the config space.
    fn config(&self, asked: &[u8]) -> io::Result<Vec<u8>> {
        let head = asked.get(..12).ok_or_else(|| broken("a short message"))?;
        let len = u32::from_ne_bytes(head[4..8].try_into().expect("4 bytes")) as usize;
        let mut config = [0; 256];
        let sectors = match &self.device {
            Device::Control => 0,
            Device::Disk(disk, _) => disk.capacity() / 512,
        };
        config[..8].copy_from_slice(&sectors.to_le_bytes());
        config[WCE + 2..WCE + 4].copy_from_slice(&1_u16.to_le_bytes());
        Ok([head, &config[..len.min(config.len())]].concat())
    }

    /// Takes the bits of a store to `wce`: a part of the mailbox's page number, or the bell.
    fn rings(
        &mut self,
        bits: u8,
        memory: &GuestMemoryMmap,
        again: &dyn Fn(u64) -> u64,
    ) -> io::Result<Rung> {
        if self.parts < PARTS {
            self.page |= u64::from(bits) << (7 * self.parts);
            self.parts += 1;
            return Ok(Rung::SetUp);
        }
        let question = self.question(memory)?;
        let now = question.now;
        match question.ask {
            1 => {
                self.hello(&question, memory)?;
                Ok(Rung::Turn(now))
            }
            2 | 3 => {
                if question.ask == 3 {
                    self.submit(&question, memory)?;
                }
                self.turn(now, memory, again)?;
                Ok(Rung::Turn(now))
            }
            4 => {
                let mut said = Vec::new();
                for (at, len) in self.segments(&question, memory)? {
                    let from = said.len();
                    said.resize(from + len as usize, 0);
                    memory.read_slice(&mut said[from..], at).map_err(broken)?;
                }
                self.turn(now, memory, again)?;
                Ok(Rung::Said(now, said))
            }
            ask => Err(broken(format!("it asks {ask}"))),
        }
    }

    /// Returns the guest-physical address of a field of the mailbox.
    fn field(&self, offset: u64) -> GuestAddress {
        GuestAddress((self.page << 12) + offset)
    }

    fn put<T: vm_memory::ByteValued>(
        &self,
        memory: &GuestMemoryMmap,
        offset: u64,
        value: T,
    ) -> io::Result<()> {
        memory.write_obj(value, self.field(offset)).map_err(broken)
    }

    /// Reads the fields that the driver writes.
    fn question(&self, memory: &GuestMemoryMmap) -> io::Result<Question> {
        let mut bytes = [0; AT_ENDED as usize];
        memory
            .read_slice(&mut bytes, self.field(0))
            .map_err(broken)?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Ok(Question {
            ask: word(0),
            version: word(4),
            now: long(8),
            sector: long(16),
            op: word(24),
            tag: word(28),
            segments: word(32),
        })
    }

    /// Says what the device is.
    fn hello(&self, question: &Question, memory: &GuestMemoryMmap) -> io::Result<()> {
        if question.version != VERSION {
            return Err(broken(format!(
                "its driver has version {} of the mailbox and this program version {VERSION}: \
                 `lowmark kernel add` builds the driver anew",
                question.version
            )));
        }
        let (sectors, depth, most, flags, index) = match &self.device {
            Device::Control => (0, 1, 4096, 2, 0),
            Device::Disk(disk, index) => (
                disk.capacity() / 512,
                disk.depth(),
                disk.max_request().min(MOST_BYTES) as u32,
                u32::from(disk.rotates()) | u32::from(disk.holds_programs()) << 2,
                *index,
            ),
        };
        self.put(memory, AT_SECTORS, sectors)?;
        self.put(memory, AT_DEPTH, depth)?;
        self.put(memory, AT_MOST, most)?;
        self.put(memory, AT_FLAGS, flags)?;
        self.put(memory, AT_INDEX, index)?;
        self.put(memory, AT_AGAIN, NEVER)
    }

    /// Returns the pieces of memory that a question names, without the empty ones.
    fn segments(
        &self,
        question: &Question,
        memory: &GuestMemoryMmap,
    ) -> io::Result<Vec<(GuestAddress, u32)>> {
        if question.segments > MOST_SEGMENTS {
            return Err(broken(format!("a request of {} pieces", question.segments)));
        }
        let mut bytes = vec![0; question.segments as usize * 16];
        memory
            .read_slice(&mut bytes, self.field(AT_SEGMENT))
            .map_err(broken)?;
        let pieces = bytes.chunks_exact(16).map(|piece| {
            let at = u64::from_le_bytes(piece[..8].try_into().expect("8 bytes"));
            let len = u32::from_le_bytes(piece[8..12].try_into().expect("4 bytes"));
            (GuestAddress(at), len)
        });
        Ok(pieces.filter(|(_, len)| *len > 0).collect())
    }

    /// Takes a request.
    fn submit(&mut self, question: &Question, memory: &GuestMemoryMmap) -> io::Result<()> {
        let data = self.segments(question, memory)?;
        let Device::Disk(disk, _) = &mut self.device else {
            return Err(broken("a request for the device without a disk"));
        };
        let dir = match question.op {
            0 => Dir::Read,
            1 => Dir::Write,
            op => return Err(broken(format!("a request of kind {op}"))),
        };
        let at = question.sector.saturating_mul(512);
        disk.submit(question.now, question.tag, dir, at, data);
        Ok(())
    }

    /// Says which requests have ended by `now`, and when the next turn is due.
    fn turn(
        &mut self,
        now: u64,
        memory: &GuestMemoryMmap,
        again: &dyn Fn(u64) -> u64,
    ) -> io::Result<()> {
        self.ended.clear();
        let next = match &mut self.device {
            Device::Control => again(now),
            Device::Disk(disk, _) => {
                disk.take_ended(now, memory, MOST_ENDED, &mut self.ended)?;
                disk.next_completion(now).unwrap_or(NEVER)
            }
        };
        for (i, (tag, failed)) in self.ended.iter().enumerate() {
            let pair = [*tag, u32::from(*failed)];
            self.put(memory, AT_DONE + 8 * i as u64, pair)?;
        }
        self.put(memory, AT_ENDED, self.ended.len() as u32)?;
        self.put(memory, AT_AGAIN, next)
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
