//! A disk's connection to its guest: vhost-user messages on a socket, requests in a ring in the
//! guest's memory.
//!
//! Messages and features are those of rust-vmm's `vhost`; the ring is walked by its `virtio-queue`,
//! the memory mapped by its `vm-memory`. The message framing is implemented here, because that of
//! `vhost` serves only notifications by event descriptors. Ours are *in band*: a kick is a message
//! with a reply and so is a call, so no notification is under way while virtual time moves.

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use vhost::vhost_user::VhostUserProtocolFeatures as Protocol;
use vhost::vhost_user::message::{
    BackendReq, FrontendReq, VhostUserConfig, VhostUserHeaderFlag, VhostUserMemory,
    VhostUserMemoryRegion, VhostUserU64, VhostUserVringAddr, VhostUserVringState,
};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_TOPOLOGY,
};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::VIRTIO_RING_F_INDIRECT_DESC;
use virtio_queue::{Queue, QueueT};
use vm_memory::mmap::FromRangesError;
use vm_memory::{ByteValued, FileOffset, GuestAddress, GuestMemoryMmap};

/// Entries of a ring, as User-Mode Linux offers.
const RING: u16 = 256;
/// The most segments of a request: 512 KiB of single pages.
const SEGMENTS: u32 = 254;
/// `VHOST_USER_F_PROTOCOL_FEATURES`.
const F_PROTOCOL: u64 = 1 << 30;

/// Features of the device. It has no volatile write cache (`VIRTIO_BLK_F_FLUSH`), like the disks of
/// the virtual world: acknowledged data is written.
const FEATURES: u64 = F_PROTOCOL
    | 1 << VIRTIO_F_VERSION_1
    | 1 << VIRTIO_RING_F_INDIRECT_DESC
    | 1 << VIRTIO_BLK_F_SEG_MAX
    | 1 << VIRTIO_BLK_F_BLK_SIZE
    | 1 << VIRTIO_BLK_F_TOPOLOGY;

/// Features of vhost-user that both ends must support.
const PROTOCOL: Protocol = Protocol::REPLY_ACK
    .union(Protocol::BACKEND_REQ)
    .union(Protocol::CONFIG)
    .union(Protocol::INBAND_NOTIFICATIONS);

/// The header of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    /// The kind of message.
    pub request: u32,
    /// Version and `VhostUserHeaderFlag`s.
    pub flags: u32,
    /// Bytes of the body.
    pub size: u32,
}

impl Head {
    const BYTES: usize = 12;

    /// Returns true if the sender waits for a reply.
    pub fn wants_reply(self) -> bool {
        self.flags & VhostUserHeaderFlag::NEED_REPLY.bits() != 0
    }

    /// Reads a message's header from its bytes: request, flags, and size of the body.
    fn of(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        Self {
            request: word(0),
            flags: word(4),
            size: word(8),
        }
    }

    /// Assembles a message of header and body (vhost-user, version 1).
    fn message(request: u32, flags: VhostUserHeaderFlag, body: &[u8]) -> Vec<u8> {
        let flags = flags.bits() | 1;
        let mut bytes = Vec::with_capacity(Self::BYTES + body.len());
        for word in [request, flags, body.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(body);
        bytes
    }
}

/// The meaning of a served message for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A step of the device's setup; no action is needed.
    SetUp,
    /// Requests are in the ring; [`Connection::answer`] must be called when they are taken.
    Kick,
}

/// The guest's memory and its address ranges.
struct Memory {
    mapped: GuestMemoryMmap,
    /// For each region: address in the guest's user space, size, guest-physical address.
    regions: Vec<(u64, u64, u64)>,
}

/// The connection of one disk.
pub struct Connection {
    socket: UnixStream,
    /// The socket for calls to the guest.
    calls: Option<UnixStream>,
    memory: Option<Memory>,
    queue: Queue,
    config: Vec<u8>,
    /// The message that [`Self::answer`] has to reply to.
    unanswered: Option<u32>,
    reply_ack: bool,
}

fn broken(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}

/// Reads the head of a message's body as a `T`; fails if the body is shorter.
fn body<T: ByteValued + Copy>(bytes: &[u8]) -> io::Result<T> {
    let size = size_of::<T>();
    let mut value = T::zeroed();
    let bytes = bytes
        .get(..size)
        .ok_or_else(|| broken("a message of the guest's disk is cut short"))?;
    value.as_mut_slice().copy_from_slice(bytes);
    Ok(value)
}

/// Receives a message: its header, its body, and the files that came with it.
///
/// # Errors
/// The other end has gone, or the message has more than 4096 bytes.
pub(crate) fn receive(socket: &mut UnixStream) -> io::Result<(Head, Vec<u8>, Vec<OwnedFd>)> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut head = [0; Head::BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(
        &*socket,
        &mut [IoSliceMut::new(&mut head)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    socket.read_exact(&mut head[got.bytes..])?;
    let head = Head::of(head);
    if head.size > 4096 {
        return Err(broken(format!(
            "a message of {} bytes from the guest's disk",
            head.size
        )));
    }
    let mut body = vec![0; head.size as usize];
    socket.read_exact(&mut body)?;
    Ok((head, body, fds))
}

/// Sends the reply to a request.
///
/// # Errors
/// The other end has gone.
pub(crate) fn reply(socket: &mut UnixStream, request: u32, body: &[u8]) -> io::Result<()> {
    let message = Head::message(request, VhostUserHeaderFlag::REPLY, body);
    socket.write_all(&message)
}

impl Connection {
    /// Makes the connection (vhost-user) of a disk of `capacity` bytes with the guest's driver at
    /// the other end of `socket`.
    ///
    /// # Panics
    /// Never: the size of the ring is a power of two.
    pub fn new(socket: UnixStream, capacity: u64) -> Self {
        Self {
            socket,
            calls: None,
            memory: None,
            queue: Queue::new(RING).expect("a ring of 256"),
            config: config(capacity),
            unanswered: None,
            reply_ack: false,
        }
    }

    /// Returns the ring of requests and the guest's memory; `None` until the guest has set them up.
    pub fn ring(&mut self) -> Option<(&mut Queue, &GuestMemoryMmap)> {
        let memory = self.memory.as_ref()?;
        Some((&mut self.queue, &memory.mapped))
    }

    /// Serves the pending message of the guest's driver. Returns what the caller has to do:
    /// nothing, or to take the requests in the ring.
    ///
    /// # Errors
    /// The guest has gone, or sent an unknown message.
    pub fn serve(&mut self) -> io::Result<Asked> {
        let (head, bytes, fds) = receive(&mut self.socket)?;
        let request = FrontendReq::try_from(head.request).map_err(|_| {
            broken(format!(
                "the guest's disk driver sent the unknown request {}",
                head.request
            ))
        })?;
        let number = |n: u64| VhostUserU64::new(n).as_slice().to_vec();
        match request {
            FrontendReq::GET_FEATURES => reply(&mut self.socket, head.request, &number(FEATURES))?,
            FrontendReq::GET_PROTOCOL_FEATURES => {
                reply(&mut self.socket, head.request, &number(PROTOCOL.bits()))?;
            }
            FrontendReq::GET_CONFIG => {
                let answer = self.config_of(&bytes)?;
                reply(&mut self.socket, head.request, &answer)?;
            }
            FrontendReq::VRING_KICK => {
                self.unanswered = (head.wants_reply()).then_some(head.request);
                return Ok(Asked::Kick);
            }
            _ => {
                self.set(request, &bytes, fds)?;
                if head.wants_reply() && self.reply_ack {
                    reply(&mut self.socket, head.request, &number(0))?;
                }
            }
        }
        Ok(Asked::SetUp)
    }

    /// Acknowledges the guest's last kick (its notice of new requests), once these are taken from
    /// the ring.
    ///
    /// # Errors
    /// The guest has gone.
    pub fn answer(&mut self) -> io::Result<()> {
        match self.unanswered.take() {
            Some(request) => reply(&mut self.socket, request, VhostUserU64::new(0).as_slice()),
            None => Ok(()),
        }
    }

    /// Returns the answer to a read of the device's configuration space: the question, followed by
    /// the bytes at the offset and of the size that it names. Bytes beyond the space are 0.
    fn config_of(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let asked: VhostUserConfig = body(bytes)?;
        let (offset, size) = (asked.offset as usize, asked.size as usize);
        let known = self.config.get(offset..).unwrap_or(&[]);
        let mut answer = asked.as_slice().to_vec();
        answer.extend((0..size).map(|i| known.get(i).copied().unwrap_or(0)));
        Ok(answer)
    }

    /// Serves a message that sets something: protocol features, memory, the ring's size, position
    /// and addresses, or the socket for calls (`fds`: descriptors sent with the message). Other
    /// messages are ignored.
    fn set(&mut self, request: FrontendReq, bytes: &[u8], mut fds: Vec<OwnedFd>) -> io::Result<()> {
        match request {
            FrontendReq::SET_PROTOCOL_FEATURES => {
                let agreed = Protocol::from_bits_truncate(body::<VhostUserU64>(bytes)?.value);
                if !agreed.contains(PROTOCOL) {
                    return Err(broken(format!(
                        "the guest's disk driver lacks {:?}",
                        PROTOCOL - agreed
                    )));
                }
                self.reply_ack = true;
            }
            FrontendReq::SET_MEM_TABLE => self.memory = Some(memory(bytes, fds)?),
            FrontendReq::SET_VRING_NUM => {
                let state: VhostUserVringState = body(bytes)?;
                self.queue.set_size(state.num as u16);
            }
            FrontendReq::SET_VRING_BASE => {
                let state: VhostUserVringState = body(bytes)?;
                self.queue.set_next_avail(state.num as u16);
                self.queue.set_next_used(state.num as u16);
            }
            FrontendReq::SET_VRING_ADDR => {
                let ring: VhostUserVringAddr = body(bytes)?;
                let memory = self
                    .memory
                    .as_ref()
                    .ok_or_else(|| broken("a ring before the memory"))?;
                let (desc, avail, used) = (
                    memory.address(ring.descriptor)?,
                    memory.address(ring.available)?,
                    memory.address(ring.used)?,
                );
                let set = self.queue.try_set_desc_table_address(desc);
                let set = set.and_then(|()| self.queue.try_set_avail_ring_address(avail));
                let set = set.and_then(|()| self.queue.try_set_used_ring_address(used));
                set.map_err(|e| broken(format!("the guest's ring: {e}")))?;
                self.queue.set_ready(true);
            }
            FrontendReq::SET_BACKEND_REQ_FD => {
                self.calls = fds.pop().map(UnixStream::from);
            }
            // Event descriptors are not used, and the other messages do not concern a disk.
            _ => {}
        }
        Ok(())
    }

    /// Interrupts the guest: requests have completed. The reply comes on [`Self::calls`], and the
    /// guest may ask its calendar for the time before that.
    ///
    /// # Errors
    /// The guest has gone.
    pub fn call(&mut self) -> io::Result<()> {
        let Some(calls) = &mut self.calls else {
            return Err(broken("the guest's disk driver accepts no interrupts"));
        };
        let state = VhostUserVringState::new(0, 0);
        let request = BackendReq::VRING_CALL as u32;
        let message = Head::message(request, VhostUserHeaderFlag::NEED_REPLY, state.as_slice());
        calls.write_all(&message)
    }

    /// Returns the socket on which replies to calls arrive.
    pub fn calls(&self) -> Option<BorrowedFd<'_>> {
        self.calls.as_ref().map(AsFd::as_fd)
    }

    /// Reads the guest's reply to a call, which says that it has taken the interrupt.
    ///
    /// # Errors
    /// The guest has gone.
    pub fn called(&mut self) -> io::Result<()> {
        let Some(calls) = &mut self.calls else {
            return Ok(());
        };
        let mut head = [0; Head::BYTES];
        calls.read_exact(&mut head)?;
        let mut rest = vec![0; Head::of(head).size as usize];
        calls.read_exact(&mut rest)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the device's configuration space (virtio 1.2, 5.2.4) for a disk of `capacity` bytes:
/// capacity in sectors, segments, block size and topology.
fn config(capacity: u64) -> Vec<u8> {
    let mut c = vec![0; 64];
    c[..8].copy_from_slice(&(capacity / 512).to_le_bytes());
    c[12..16].copy_from_slice(&SEGMENTS.to_le_bytes());
    c[20..24].copy_from_slice(&512u32.to_le_bytes());
    // Topology: 2^3 = 8 logical blocks per physical block.
    c[24] = 3;
    c
}

/// Maps the guest's memory: the regions in the message's body, each with a file descriptor of
/// `fds`.
fn memory(bytes: &[u8], fds: Vec<OwnedFd>) -> io::Result<Memory> {
    let table: VhostUserMemory = body(bytes)?;
    let count = table.num_regions as usize;
    let size = size_of::<VhostUserMemoryRegion>();
    let mut regions = Vec::new();
    let mut ranges = Vec::new();
    for (i, fd) in fds.into_iter().enumerate().take(count) {
        let at = size_of::<VhostUserMemory>() + i * size;
        let rest = bytes.get(at..).unwrap_or(&[]);
        let region: VhostUserMemoryRegion = body(rest)?;
        let (user, len, phys) = (region.user_addr, region.memory_size, region.guest_phys_addr);
        regions.push((user, len, phys));
        let file = FileOffset::new(File::from(fd), region.mmap_offset);
        ranges.push((GuestAddress(phys), len as usize, Some(file)));
    }
    ranges.sort_by_key(|r| r.0);
    let mapped = GuestMemoryMmap::from_ranges_with_files(&ranges)
        .map_err(|e: FromRangesError| broken(format!("the guest's memory: {e}")))?;
    Ok(Memory { mapped, regions })
}

impl Memory {
    /// Returns the guest-physical address of an address in the guest's user space, in which the
    /// ring's addresses are given; fails if it lies in no region.
    fn address(&self, user: u64) -> io::Result<GuestAddress> {
        let inside = |&&(from, len, _): &&(u64, u64, u64)| (from..from + len).contains(&user);
        let region = self.regions.iter().find(inside);
        region
            .map(|(from, _, phys)| GuestAddress(user - from + phys))
            .ok_or_else(|| {
                broken(format!(
                    "the guest's ring at {user:#x}, where it has no memory"
                ))
            })
    }
}
