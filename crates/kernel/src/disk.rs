//! A disk of a guest: takes requests from its ring or its mailbox, serves them in the time of the
//! virtual world's device models, and moves the data.

use crate::store::{BLOCK, Store};
use crate::virtio::Connection;
use sim::Params;
use sim::block::{Device, Dir, Volume};
use sim::disks::Transfer;
use sim::rng::{Rng, fnv1a};
use sim::spec::DiskSpec;
use std::collections::VecDeque;
use std::io;
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_FLUSH,
    VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
};
use virtio_queue::{DescriptorChain, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Queue depth of a disk whose requests take no time.
const MOST_DEPTH: u32 = 128;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Transfer(Dir),
    Flush,
    Name,
    Unknown,
}

/// A request of the guest in the disk.
#[derive(Debug)]
struct Request {
    /// The number by which the guest knows the request: its first descriptor in the ring, or its
    /// tag.
    tag: u32,
    want: Want,
    /// The request's start on the disk, in bytes.
    at: u64,
    data: Vec<(GuestAddress, u32)>,
    /// Where a ring's request wants its status; a mailbox has it beside the tag.
    status: GuestAddress,
    arrived: u64,
    /// Transfers on members of an array that have not ended.
    parts: u32,
    failed: bool,
}

impl Request {
    /// Returns the length of the request's data in bytes.
    fn bytes(&self) -> u64 {
        self.data.iter().map(|d| u64::from(d.1)).sum()
    }
}

/// A request that has ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    tag: u32,
    /// The status as virtio has it.
    status: u32,
    /// Where a ring's request wants it.
    at: GuestAddress,
    /// Bytes written into the guest's memory.
    written: u32,
}

/// A member of an array, or the disk itself: its device and the transfers that wait for it.
struct Member {
    device: Device,
    waiting: VecDeque<(u32, Transfer)>,
    rng: Rng,
}

/// A disk.
pub struct Disk {
    /// How blocks are spread over the members of an array; `None`: requests take no time, while a
    /// disk is laid out.
    volume: Option<Volume>,
    members: Vec<Member>,
    /// Requests that end at once.
    ended: VecDeque<u32>,
    store: Store,
    requests: Vec<Option<Request>>,
    free: Vec<u32>,
    errors: u64,
    digest: u64,
    buffer: Vec<u8>,
    /// Whether the modelled disk has platters that turn.
    rotates: bool,
    /// Whether programs may be read from it ([`Self::holding_programs`]).
    holds_programs: bool,
}

impl Disk {
    /// Makes the disk of a specification over the contents `store`; `name` separates its random
    /// numbers from those of the machine's other disks.
    pub fn new(spec: &DiskSpec, params: &Params, seed: u64, name: &str, store: Store) -> Self {
        let params = spec.params(params);
        let (volume, disks) = Volume::new(spec, &params, 0);
        let member = |(i, disk): (usize, &DiskSpec)| {
            let mut rng = Rng::new(seed, &format!("{name}{i}"));
            Member {
                device: Device::new(disk, &params, &mut rng),
                waiting: VecDeque::new(),
                rng,
            }
        };
        let members = disks.iter().enumerate().map(member).collect();
        Self {
            rotates: spec.kind.about().rotates,
            ..Self::with(Some(volume), members, store)
        }
    }

    /// Makes a disk whose requests take no time, as is wanted while a disk's contents are laid out.
    pub fn at_once(store: Store) -> Self {
        Self::with(None, Vec::new(), store)
    }

    /// Makes a disk without requests; `volume` spreads blocks over `members`, and `None` means that
    /// requests take no time.
    fn with(volume: Option<Volume>, members: Vec<Member>, store: Store) -> Self {
        Self {
            volume,
            members,
            ended: VecDeque::new(),
            store,
            requests: Vec::new(),
            free: Vec::new(),
            errors: 0,
            digest: fnv1a(b"disk"),
            buffer: Vec::new(),
            rotates: false,
            holds_programs: false,
        }
    }

    /// Marks a disk from which code may be read: the root of a user's own program, or swap.
    pub fn holding_programs(self) -> Self {
        Self {
            holds_programs: true,
            ..self
        }
    }

    /// Returns true if code may be read from the disk.
    pub fn holds_programs(&self) -> bool {
        self.holds_programs
    }

    /// Returns true if the modelled disk has platters that turn.
    pub fn rotates(&self) -> bool {
        self.rotates
    }

    /// Returns true if requests take time.
    pub fn takes_time(&self) -> bool {
        self.volume.is_some()
    }

    /// Returns how many requests the guest may have in flight: the queue depths of all members
    /// together, or a fixed number on a disk whose requests take no time.
    pub fn depth(&self) -> u32 {
        let depth: u32 = self.members.iter().map(|m| m.device.depth()).sum();
        if self.volume.is_some() {
            depth
        } else {
            MOST_DEPTH
        }
    }

    /// Returns the largest request, in bytes.
    pub fn max_request(&self) -> u64 {
        let of = |m: &Member| u64::from(m.device.max_request_blocks()) * BLOCK;
        self.members.first().map_or(1 << 20, of)
    }

    /// Returns the capacity, in bytes.
    pub fn capacity(&self) -> u64 {
        self.store.capacity()
    }

    /// Returns the contents.
    pub fn into_store(self) -> Store {
        self.store
    }

    /// Returns the number of requests that failed so far.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Returns a digest over all completed requests: time, operation, place, duration.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Takes all requests that are in the guest's ring at time `now` (ns) and starts those for
    /// which the devices have room.
    ///
    /// # Errors
    /// The ring or a request is malformed.
    pub fn take(&mut self, now: u64, connection: &mut Connection) -> io::Result<()> {
        loop {
            let Some((queue, memory)) = connection.ring() else {
                return Err(io::Error::other("a kick before the ring is set up"));
            };
            let Some(chain) = queue.pop_descriptor_chain(memory) else {
                break;
            };
            let mut request = parse(chain, memory)?;
            request.arrived = now;
            self.add_request(request);
        }
        self.dispatch(now);
        Ok(())
    }

    /// Gives a request a slot and splits it into transfers on the members of the array. A request
    /// beyond the disk's end fails at once; other requests that move no data end at once, too.
    fn add_request(&mut self, mut request: Request) {
        let outside = request.at.saturating_add(request.bytes()) > self.store.capacity();
        let transfer = match request.want {
            Want::Transfer(dir) if !outside && request.bytes() > 0 => Some(dir),
            Want::Transfer(_) => {
                request.failed = true;
                None
            }
            _ => None,
        };
        let (at, bytes) = (request.at, request.bytes());
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.requests.push(None);
                self.requests.len() as u32 - 1
            }
        };
        match (self.volume, transfer) {
            (Some(volume), Some(dir)) => {
                let (mut block, end) = (at / BLOCK, (at + bytes).div_ceil(BLOCK));
                while block < end {
                    // The member, the block on it, and the blocks of the volume that follow each
                    // other there.
                    let (member, place, room) = volume.place(block);
                    let blocks = room.min(end - block);
                    let transfer = Transfer {
                        dir,
                        block: place,
                        blocks: blocks as u32,
                    };
                    self.members[member as usize]
                        .waiting
                        .push_back((slot, transfer));
                    request.parts += 1;
                    block += blocks;
                }
            }
            // A flush has nothing to wait for either: acknowledged data is already written.
            _ => self.ended.push_back(slot),
        }
        self.requests[slot as usize] = Some(request);
    }

    /// Starts waiting transfers at time `now` (ns) on each member that has room in its queue.
    fn dispatch(&mut self, now: u64) {
        for member in &mut self.members {
            while member.device.in_service() < member.device.depth()
                && let Some((slot, transfer)) = member.waiting.pop_front()
            {
                let choices = member.device.in_service() + 1;
                let rng = &mut member.rng;
                member.device.start(now, &transfer, choices, slot, rng);
            }
        }
    }

    /// Returns the time in nanoseconds of the next completion, `now` or later; `None` if nothing is
    /// in flight.
    pub fn next_completion(&self, now: u64) -> Option<u64> {
        if !self.ended.is_empty() {
            return Some(now);
        }
        let completions = self
            .members
            .iter()
            .filter_map(|m| m.device.next_completion());
        completions.min().map(|at| at.max(now))
    }

    /// Completes the requests that are due at `now` (ns) and starts transfers that waited for room.
    /// Returns true if a request ended, so that the guest must be notified.
    ///
    /// # Errors
    /// The contents can't be read or written on the host.
    pub fn end(&mut self, now: u64, connection: &mut Connection) -> io::Result<bool> {
        self.advance(now);
        let has_ended = !self.ended.is_empty();
        if !has_ended {
            return Ok(false);
        }
        let Some((queue, memory)) = connection.ring() else {
            return Err(io::Error::other("the guest's ring is gone"));
        };
        while let Some(ended) = self.next_ended(now, memory)? {
            memory
                .write_obj(ended.status as u8, ended.at)
                .map_err(outside)?;
            queue
                .add_used(memory, ended.tag as u16, ended.written + 1)
                .map_err(io::Error::other)?;
        }
        Ok(true)
    }

    /// Takes a request from the guest's mailbox: `data` are the pieces of the guest's memory from
    /// or into which `dir` moves, from byte `at` of the disk on.
    pub fn submit(
        &mut self,
        now: u64,
        tag: u32,
        dir: Dir,
        at: u64,
        data: Vec<(GuestAddress, u32)>,
    ) {
        self.add_request(Request {
            tag,
            want: Want::Transfer(dir),
            at,
            data,
            status: GuestAddress(0),
            arrived: now,
            parts: 0,
            failed: false,
        });
        self.dispatch(now);
    }

    /// Completes the transfers of a mailbox's requests that are due at `now`, and adds at most
    /// `most` requests that have ended to `ended`: each one's tag, and whether it failed. Further
    /// ones stay for the next call ([`Self::next_completion`] is then `now`).
    ///
    /// # Errors
    /// The contents can't be read or written on the host, or a request lies beside the memory.
    pub fn take_ended(
        &mut self,
        now: u64,
        memory: &GuestMemoryMmap,
        most: usize,
        ended: &mut Vec<(u32, bool)>,
    ) -> io::Result<()> {
        self.advance(now);
        while ended.len() < most
            && let Some(one) = self.next_ended(now, memory)?
        {
            ended.push((one.tag, one.status != VIRTIO_BLK_S_OK));
        }
        Ok(())
    }

    /// Ends the transfers that are due at `now` and starts those that wait for them.
    fn advance(&mut self, now: u64) {
        for i in 0..self.members.len() {
            while let Some(ended) = self.members[i].device.end(now) {
                // A request on an array ends with the last of its transfers.
                let request = self.request(ended.slot);
                request.parts -= 1;
                request.failed |= ended.error.is_some();
                if request.parts == 0 {
                    self.ended.push_back(ended.slot);
                }
            }
        }
        self.dispatch(now);
    }

    /// Moves the data of the next request that has ended; `None`: there is none.
    fn next_ended(&mut self, now: u64, memory: &GuestMemoryMmap) -> io::Result<Option<Ended>> {
        let Some(slot) = self.ended.pop_front() else {
            return Ok(None);
        };
        let taken = self.requests[slot as usize].take();
        self.free.push(slot);
        let request = taken.expect("a request that ends was taken");
        self.finish(now, request, memory).map(Some)
    }

    /// Returns the request in a slot that a device works on.
    fn request(&mut self, slot: u32) -> &mut Request {
        let request = self.requests[slot as usize].as_mut();
        request.expect("a request that the device works on was taken")
    }

    /// Moves a request's data and records the request.
    fn finish(&mut self, now: u64, r: Request, memory: &GuestMemoryMmap) -> io::Result<Ended> {
        let (mut status, mut written) = (VIRTIO_BLK_S_OK, 0);
        match r.want {
            _ if r.failed => status = VIRTIO_BLK_S_IOERR,
            Want::Transfer(dir) => {
                written = self.transfer(dir, &r, memory)?;
            }
            Want::Flush => {}
            Want::Name => {
                let (to, len) = *r.data.first().unwrap_or(&(GuestAddress(0), 0));
                let name = [b"lowmark".as_slice(), &[0; 13]].concat();
                let len = name.len().min(len as usize);
                memory.write_slice(&name[..len], to).map_err(outside)?;
                written = len as u32;
            }
            Want::Unknown => status = VIRTIO_BLK_S_UNSUPP,
        }
        self.errors += u64::from(r.failed);
        self.add_to_digest(now, &r);
        Ok(Ended {
            tag: r.tag,
            status,
            at: r.status,
            written,
        })
    }

    /// Moves the data of a request between the guest's memory and the disk's contents; returns the
    /// number of bytes written into the guest's memory.
    fn transfer(&mut self, dir: Dir, r: &Request, memory: &GuestMemoryMmap) -> io::Result<u32> {
        let (mut at, mut into) = (r.at, 0);
        for &(address, len) in &r.data {
            self.buffer.resize(len as usize, 0);
            match dir {
                Dir::Write => {
                    memory
                        .read_slice(&mut self.buffer, address)
                        .map_err(outside)?;
                    self.store.write(at, &self.buffer)?;
                }
                Dir::Read => {
                    self.store.read(at, &mut self.buffer)?;
                    memory.write_slice(&self.buffer, address).map_err(outside)?;
                    into += len;
                }
            }
            at += u64::from(len);
        }
        Ok(into)
    }

    /// Adds a completed request to the digest: its arrival, operation, place, size, completion
    /// (`now`, ns) and outcome.
    fn add_to_digest(&mut self, now: u64, r: &Request) {
        let want = match r.want {
            Want::Transfer(dir) => dir.index() as u64,
            Want::Flush => 2,
            Want::Name => 3,
            Want::Unknown => 4,
        };
        let words = [
            self.digest,
            r.arrived,
            want,
            r.at,
            r.bytes(),
            now,
            r.failed.into(),
        ];
        self.digest = fnv1a(words.map(u64::to_le_bytes).as_flattened());
    }
}

/// Builds the error for a request whose addresses are not in the guest's memory.
fn outside(e: vm_memory::GuestMemoryError) -> io::Error {
    io::Error::other(format!("a request of the guest beside its memory: {e}"))
}

/// Reads a request's descriptors from the guest's memory: a head of 16 bytes (operation and sector
/// of 512 bytes), data, a byte for the status (virtio 1.2, 5.2.6).
fn parse(
    chain: DescriptorChain<&GuestMemoryMmap>,
    memory: &GuestMemoryMmap,
) -> io::Result<Request> {
    let short = || io::Error::other("a request of the guest lacks its head or its status");
    let tag = chain.head_index().into();
    let mut parts: Vec<(GuestAddress, u32)> = chain.map(|d| (d.addr(), d.len())).collect();
    if parts.len() < 2 {
        return Err(short());
    }
    let (status, _) = parts.pop().ok_or_else(short)?;
    let (at, len) = parts.remove(0);
    if len < 16 {
        return Err(short());
    }
    let mut words = [0; 16];
    memory.read_slice(&mut words, at).map_err(outside)?;
    let kind = u32::from_le_bytes(words[..4].try_into().expect("4 bytes"));
    let sector = u64::from_le_bytes(words[8..].try_into().expect("8 bytes"));
    let want = match kind {
        VIRTIO_BLK_T_IN => Want::Transfer(Dir::Read),
        VIRTIO_BLK_T_OUT => Want::Transfer(Dir::Write),
        VIRTIO_BLK_T_FLUSH => Want::Flush,
        VIRTIO_BLK_T_GET_ID => Want::Name,
        _ => Want::Unknown,
    };
    Ok(Request {
        tag,
        want,
        at: sector.saturating_mul(512),
        data: parts,
        status,
        arrived: 0,
        parts: 0,
        failed: false,
    })
}
