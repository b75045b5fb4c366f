//! What a cache is opened for, as C says it.

use crate::answer::{Wrong, c_text};
use crate::class::{Class, LOWMARK_CACHE_ORDINARY, Marks, classes, held};
use lowmark_cache::storage::Os;
use lowmark_cache::{OnLoss, OnNotice, Shutdown, Transfers};
use mm::Policy;
use mm::policy::PRESETS;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

/// What a cache is opened for; `lowmark_cache_defaults` gives one to change.
#[repr(C)]
pub struct Config {
    /// Bytes of memory for pages: 32 KiB to what the machine has. Never exceeded; the tables beside them take up to 2 %
    /// more, and what any cache has about 1 MiB.
    pub memory: u64,
    /// Classes of memory above the general one, which are parts of `memory`: class 1 and class 2, as far as they have
    /// memory. The general class, which has the rest, is class 0.
    pub classes: [Class; 2],
    /// Watermarks of the general class.
    pub marks: Marks,
    /// Pages of files of higher classes leave one part in so many of the memory of those classes free in the general
    /// one (lowmem_reserve_ratio); 0: they leave nothing.
    pub reserve_ratio: u32,
    /// How the system holds the general class: `LOWMARK_CACHE_ORDINARY`, `LOWMARK_CACHE_LOCKED` or
    /// `LOWMARK_CACHE_HUGE_PAGES`.
    pub held: c_int,
    /// CPU slots, 1 to 64 and at most one for each 512 KiB of memory: how many threads are inside the engine at once.
    pub cpus: u32,
    /// Threads that may use the cache at the same time, 1 to 65536. A thread counts from its first call to its end.
    pub max_threads: u32,
    /// Files that may be open at the same time, 1 to 16777215. Closed ones stay cached, each with a descriptor of the
    /// process, as long as their places are not needed.
    pub max_files: u32,
    /// Percent of memory at which background writeback starts.
    pub dirty_background_ratio: u32,
    /// Percent of memory at which writers are held back.
    pub dirty_ratio: u32,
    /// How the engine behaves, by the name of a preset ("linux-6.12"); NULL: as Linux 3.16.
    pub policy: *const c_char,
    /// Whether files are read and written past the system's page cache (O_DIRECT) where their filesystem can do that.
    pub direct: bool,
    /// Whether transfers that nobody waits for go by a ring (io_uring) where the system has one; else by threads.
    pub ring: bool,
    /// Is told in words of what one may want to know (that there is no io_uring), and of data that is lost because a
    /// cache ended without `lowmark_cache_shutdown`; on the thread that opens the cache, or ends it. NULL: standard error.
    pub tell: Option<unsafe extern "C" fn(context: *mut c_void, message: *const c_char)>,
    /// What `tell` is given; it outlives the cache.
    pub context: *mut c_void,
}

/// Whoever hears of notices and losses.
struct Listener {
    tell: unsafe extern "C" fn(context: *mut c_void, message: *const c_char),
    context: *mut c_void,
}

// SAFETY: whoever opens a cache promises that his function may be called with his context from the thread that ends it.
unsafe impl Send for Listener {}
// SAFETY: as above; it is called by one thread at a time.
unsafe impl Sync for Listener {}

impl Listener {
    fn tell(&self, message: &str) {
        let message = c_text(message);
        // SAFETY: it is the caller's own function with the caller's own context.
        unsafe { (self.tell)(self.context, message.as_ptr()) };
    }
}

pub(crate) fn loss(end: &Shutdown) -> String {
    let first = format!("a page cache ended and lost {} pages", end.lost_pages);
    let file = |(path, e): &(std::path::PathBuf, lowmark_cache::Error)| {
        format!("; {}: {e}", path.display())
    };
    first + &end.failed.iter().map(file).collect::<String>()
}

impl Config {
    pub(crate) fn of(c: &lowmark_cache::Config) -> Self {
        Self {
            memory: c.memory,
            classes: [Class::none(); 2],
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

    /// # Errors
    /// No preset has such a name; no class can be like that.
    ///
    /// # Safety
    /// The policy's name, if there is one, ends with a zero.
    pub(crate) unsafe fn meant(&self) -> Result<(Os, lowmark_cache::Config), Wrong> {
        let mut config = lowmark_cache::Config {
            memory: self.memory,
            classes: classes(&self.classes)?,
            marks: self.marks.meant(),
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

fn no_preset(name: &str) -> Wrong {
    let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
    let names = names.join(", ");
    let message = format!("policy = \"{name}\": no such preset; accepted: {names}");
    Wrong::new(libc::EINVAL, message)
}
