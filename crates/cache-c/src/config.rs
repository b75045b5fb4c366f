//! The configuration of a cache in the C interface.

use crate::answer::{Wrong, c_text};
use crate::class::{Class, LOWMARK_CACHE_ORDINARY, Marks, classes, held};
use lowmark_cache::storage::Os;
use lowmark_cache::{OnLoss, OnNotice, Shutdown, Transfers};
use mm::Policy;
use mm::policy::PRESETS;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

/// The configuration of a cache; start from `lowmark_cache_defaults`.
#[repr(C)]
pub struct Config {
    /// Bytes of memory for pages: from 32 KiB up to the machine's memory. Never exceeded; the
    /// tables beside the pages take up to 2 % more, and what any cache has takes about 1 MiB.
    pub memory: u64,
    /// Classes of memory above the general one, as parts of `memory`: class 1 and class 2, as far
    /// as their memory is not 0. The general class, which has the rest, is class 0.
    pub classes: [Class; 2],
    /// Watermarks of the general class.
    pub marks: Marks,
    /// Allocations for files of higher classes leave the general class a reserve: the memory of the
    /// higher classes divided by this ratio (lowmem_reserve_ratio). 0: no reserve.
    pub reserve_ratio: u32,
    /// How the system holds the general class's memory: `LOWMARK_CACHE_ORDINARY`,
    /// `LOWMARK_CACHE_LOCKED` or `LOWMARK_CACHE_HUGE_PAGES`.
    pub held: c_int,
    /// CPU slots: how many threads can be inside the engine at once; 1 to 64. A cache takes at
    /// most one for each 512 KiB of memory, however many are asked for.
    pub cpus: u32,
    /// Threads that may use the cache at the same time, 1 to 65536. A thread counts from its first
    /// call until it ends.
    pub max_threads: u32,
    /// Files that may be open at the same time, 1 to 16777215. Closed files stay cached, each with
    /// a descriptor of the process, until their places are needed.
    pub max_files: u32,
    /// Dirty pages, in percent of memory, at which background writeback starts.
    pub dirty_background_ratio: u32,
    /// Dirty pages, in percent of memory, at which writers are throttled.
    pub dirty_ratio: u32,
    /// The engine's policy, by the name of a preset ("linux-6.12"); NULL: Linux 3.16.
    pub policy: *const c_char,
    /// True: bypass the system's page cache (O_DIRECT) where the filesystem can.
    pub direct: bool,
    /// True: make background transfers by an io_uring if the system has one; else by threads.
    pub ring: bool,
    /// Called with a message about a notice (there is no io_uring), on the thread that opens the
    /// cache, or about data lost because the cache ended without `lowmark_cache_shutdown`, on the
    /// thread that ended it. NULL: messages go to standard error.
    pub tell: Option<unsafe extern "C" fn(context: *mut c_void, message: *const c_char)>,
    /// The first argument of `tell`; it must outlive the cache.
    pub context: *mut c_void,
}

/// The program's receiver of notices and losses.
struct Listener {
    tell: unsafe extern "C" fn(context: *mut c_void, message: *const c_char),
    context: *mut c_void,
}

// SAFETY: a program that opens a cache promises that `tell` may be called with `context` on the
// thread that ends the cache.
unsafe impl Send for Listener {}
// SAFETY: as above; one thread at a time calls it.
unsafe impl Sync for Listener {}

impl Listener {
    /// Passes a message about a notice or a loss to the C program.
    fn tell(&self, message: &str) {
        let message = c_text(message);
        // SAFETY: it is the caller's own function with the caller's own context.
        unsafe { (self.tell)(self.context, message.as_ptr()) };
    }
}

/// Describes how many pages a cache has lost when it ended, and which files' last sync failed.
pub(crate) fn loss(end: &Shutdown) -> String {
    let first = format!("a page cache ended and lost {} pages", end.lost_pages);
    let file = |(path, e): &(std::path::PathBuf, lowmark_cache::Error)| {
        format!("; {}: {e}", path.display())
    };
    first + &end.failed.iter().map(file).collect::<String>()
}

impl Config {
    /// Converts a configuration of the Rust cache for C; the policy is NULL, which means the
    /// default.
    pub(crate) fn of(c: &lowmark_cache::Config) -> Self {
        Self {
            memory: c.memory,
            classes: [Class::empty(); 2],
            marks: Marks::formula(),
            reserve_ratio: c.reserve_ratio,
            held: LOWMARK_CACHE_ORDINARY,
            cpus: c.cpus as u32,
            max_threads: c.max_threads,
            max_files: c.max_files,
            dirty_background_ratio: c.dirty_background_ratio as u32,
            dirty_ratio: c.dirty_ratio as u32,
            policy: std::ptr::null(),
            direct: true,
            ring: c.transfers == Transfers::Ring,
            tell: None,
            context: std::ptr::null_mut(),
        }
    }

    /// Converts the configuration of a C program. Returns how files are opened (with O_DIRECT or
    /// not) and the configuration of the Rust cache.
    ///
    /// # Errors
    /// There is no preset of that name, or a class is not possible.
    ///
    /// # Safety
    /// `policy` is NULL or ends with a zero byte.
    pub(crate) unsafe fn convert(&self) -> Result<(Os, lowmark_cache::Config), Wrong> {
        let mut config = lowmark_cache::Config {
            memory: self.memory,
            classes: classes(&self.classes)?,
            marks: self.marks.convert(),
            reserve_ratio: self.reserve_ratio,
            held: held(self.held)?,
            cpus: self.cpus as usize,
            max_threads: self.max_threads,
            max_files: self.max_files,
            dirty_background_ratio: u64::from(self.dirty_background_ratio),
            dirty_ratio: u64::from(self.dirty_ratio),
            transfers: match self.ring {
                true => Transfers::Ring,
                false => Transfers::Calls,
            },
            ..Default::default()
        };
        if !self.policy.is_null() {
            // SAFETY: as promised.
            let name = unsafe { CStr::from_ptr(self.policy) }.to_string_lossy();
            config.policy = Policy::preset(&name).ok_or_else(|| no_preset(&name))?;
        }
        if let Some(tell) = self.tell {
            let context = self.context;
            let listener = Arc::new(Listener { tell, context });
            let other = Arc::clone(&listener);
            config.on_notice = OnNotice::call(move |notice| listener.tell(&notice.to_string()));
            config.on_loss = OnLoss::call(move |end| other.tell(&loss(end)));
        }
        let direct = self.direct;
        Ok((Os { direct }, config))
    }
}

/// Makes the error about a policy's name that no preset has.
fn no_preset(name: &str) -> Wrong {
    let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
    let names = names.join(", ");
    let message = format!("policy = \"{name}\": no such preset; accepted: {names}");
    Wrong::new(libc::EINVAL, message)
}
