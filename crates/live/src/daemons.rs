//! The threads of a cache: kswapd, the fold of counters, the owner of the ring, and for each device
//! a flusher and, without a ring, the threads that make calls.

use crate::config::{CALLERS, CALLERS_EACH, DEVICES, FLUSHERS, KSWAPD, Notice, RING, Transfers};
use crate::error::Error;
use crate::inner::Inner;
use crate::io;
use crate::listen::{Listener, Stop};
use crate::metrics;
use crate::uring::{self, Ring};
use crate::world::daemon;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// The threads of a running cache.
pub(crate) struct Daemons {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
    /// Address at which metrics are served, and the handle that stops the server.
    listens: Option<(SocketAddr, Stop)>,
    /// `st_dev` of each device, indexed by the device's number in the cache.
    devices: Vec<u64>,
    /// True if one thread with a ring makes the transfers of all devices.
    ring: bool,
}

impl Daemons {
    /// Returns the state of a cache's threads before any is started.
    pub fn new(inner: &Arc<Inner>) -> Self {
        Self {
            inner: Arc::clone(inner),
            threads: Vec::new(),
            listens: None,
            devices: Vec::new(),
            ring: false,
        }
    }

    /// Starts the threads that every cache has: the ring's owner if transfers are to use a ring
    /// (`rings`: the storage allows it), kswapd, and the fold of counters. Calls `tell` with the
    /// reason if there is no ring.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        &mut self,
        transfers: Transfers,
        rings: bool,
        tell: impl Fn(Notice),
    ) -> Result<(), Error> {
        if transfers == Transfers::Ring && rings {
            match self.start_ring()? {
                Ok(()) => self.ring = true,
                Err(e) => tell(Notice::NoRing(e)),
            }
        }
        self.inner.mm.world.one_executor(self.ring);
        if self.inner.mm.world.to_populate() {
            self.spawn("populate", |i| i.mm.world.populate())?;
        }
        self.spawn("kswapd0", |i| daemon::kswapd(&i.mm, KSWAPD))?;
        self.spawn("vmstat", |i| daemon::vmstat(&i.mm))
    }

    /// Starts the thread that serves the metrics.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn listen(&mut self, listener: Listener) -> Result<(), Error> {
        let (address, stop) = (listener.address, listener.stop());
        self.spawn("metrics", move |i| {
            listener.serve(&|form| metrics::page(&i.mm, form));
        })?;
        self.listens = Some((address, stop));
        Ok(())
    }

    /// Returns the address at which metrics are served.
    pub fn listens(&self) -> Option<SocketAddr> {
        self.listens.as_ref().map(|(address, _)| *address)
    }

    /// Starts the thread that owns the ring. The inner error says why the system gave no ring; the
    /// outer one, that the thread cannot be started.
    fn start_ring(&mut self) -> Result<Result<(), crate::Errno>, Error> {
        let (tell, told) = mpsc::channel();
        // Only the thread that made a ring may submit to it.
        self.spawn("io-ring", move |i| {
            let ring = match Ring::new() {
                Ok(ring) => ring,
                Err(e) => return tell.send(Err(e)).unwrap_or(()),
            };
            i.mm.world.io(0).begin(Some(Box::new(ring.bell())));
            tell.send(Ok(())).unwrap_or(());
            uring::run(&i.mm, RING, ring);
        })?;
        told.recv()
            .map_err(|_| Error::Config("thread io-ring ended".to_owned()))
    }

    /// Returns the number of a device by its `st_dev`; for a new device it makes a bdi and starts
    /// the flusher and, without a ring, the threads that make calls. All devices beyond the last
    /// number share that number.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn device(&mut self, st_dev: u64) -> Result<u32, Error> {
        if let Some(i) = self.devices.iter().position(|&d| d == st_dev) {
            return Ok(i as u32);
        }
        let bdi = self.devices.len() as u32;
        if bdi == DEVICES {
            return Ok(DEVICES - 1);
        }
        let mm = &self.inner.mm;
        if mm.bdi_count() == bdi {
            mm.new_bdi(0, 100)
                .expect("room for the devices that are told apart");
        }
        if !self.ring {
            for i in 0..CALLERS_EACH {
                let task = CALLERS + bdi * CALLERS_EACH + i;
                let name = format!("io-{bdi}.{i}");
                self.spawn(&name, move |inner| io::calls(&inner.mm, bdi, task))?;
                self.inner.mm.world.io(bdi).begin(None);
            }
        }
        let name = format!("flusher-{bdi}");
        self.spawn(&name, move |i| daemon::flusher(&i.mm, FLUSHERS + bdi, bdi))?;
        self.devices.push(st_dev);
        Ok(bdi)
    }

    /// Starts a thread of the cache that runs `life`, and keeps it to be joined.
    fn spawn(
        &mut self,
        name: &str,
        life: impl FnOnce(&Inner) + Send + 'static,
    ) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || life(&inner))
            .map_err(|e| Error::Config(format!("thread {name}: {e}")))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Stops the threads of the cache and waits for them; each ends when nothing is left for it to
    /// do. Passes on a thread's panic.
    pub fn stop(self) {
        self.inner.mm.world.stop_daemons();
        self.inner.mm.world.fold.stop();
        if let Some((_, stop)) = &self.listens {
            stop.ring();
        }
        for t in self.threads {
            if let Err(panic) = t.join()
                && !std::thread::panicking()
            {
                resume_unwind(panic);
            }
        }
    }
}
