//! Completes a job: the values that depend on several keys, and checks of their combination.

use super::job::{
    Access, Amount, Distribution, ExitWhat, Job, Skew, Stride, Target, Verify, is_device,
    standing_for,
};
use super::section::{FILE, NOTHING};
use super::setting::{FioError, Setting};

/// The limit on blocks for a Zipf distribution.
const MOST_RANKS: u64 = 1 << 26;

/// The size of the file that stands for a device whose job does not say how much is accessed.
const DEVICE: u64 = 1 << 30;

/// A job in the making, while its section is read.
pub(super) struct Given {
    pub job: Job,
    pub size: Option<Amount>,
    pub io_size: Option<Amount>,
    pub filesize: Option<[u64; 2]>,
    pub offset: Amount,
    pub increment: Amount,
    pub offset_align: u64,
    /// Set if reads and writes are mixed; `mix` is the percentage of reads.
    pub mixed: bool,
    pub mix: u64,
    pub engine: String,
    pub offload: bool,
    pub strided: bool,
    /// `zonesize`, `zoneskip` and `zonerange`.
    pub zone: [u64; 3],
    pub verify: bool,
    pub do_verify: bool,
    pub verify_only: bool,
    pub backlog: u64,
    pub batch: u64,
    pub new_group: bool,
    pub wait_for: Option<Setting>,
    pub exitall: bool,
    pub exit_what: ExitWhat,
    pub target: Target,
    pub steady_ns: u64,
    pub steady_ramp_ns: u64,
}

impl Given {
    /// Starts a job with fio's default values.
    pub fn named(name: &str) -> Self {
        Self {
            job: Job::named(name),
            size: None,
            io_size: None,
            filesize: None,
            offset: NOTHING,
            increment: NOTHING,
            offset_align: 0,
            mixed: false,
            mix: 50,
            engine: "psync".to_owned(),
            offload: false,
            strided: false,
            zone: [0; 3],
            verify: false,
            do_verify: true,
            verify_only: false,
            backlog: 0,
            batch: 0,
            new_group: false,
            wait_for: None,
            exitall: false,
            exit_what: ExitWhat::Group,
            target: Target {
                ns: 0,
                window_ns: 0,
                percentile: 100_000,
                goes_on: false,
            },
            steady_ns: 0,
            steady_ramp_ns: 0,
        }
    }

    /// Completes the job, and checks that its values are consistent. `before` are the jobs before
    /// it in the file. Returns the job; notes for readers of the results are added to `notes`.
    /// Errors point at `head`, the section's name.
    pub fn finish(
        mut self,
        head: &Setting,
        before: &[Job],
        notes: &mut Vec<String>,
    ) -> Result<Job, FioError> {
        if self.mixed {
            self.job.reads = self.mix;
        }
        if !self.job.filenames.is_empty() {
            self.job.files = self.job.filenames.len() as u64;
        }
        let used = |job: &Job| {
            let names = &self.job.filenames;
            names.iter().any(|name| job.filenames.contains(name))
        };
        self.job.used_before = before.iter().any(used);
        self.lengths(head, before, notes)?;
        self.tie(head, before, notes)?;
        self.fits(head)?;
        self.queue(notes);
        Ok(self.job)
    }

    /// Sets how many bytes of the files are accessed and moved, and where the accessed part of a
    /// file begins.
    fn lengths(
        &mut self,
        head: &Setting,
        before: &[Job],
        notes: &mut Vec<String>,
    ) -> Result<(), FioError> {
        let (files, processes) = (self.job.files, self.job.numjobs);
        let device = self
            .job
            .filenames
            .iter()
            .find(|name| is_device(name))
            .cloned();
        let bytes = |amount: Option<Amount>| match amount {
            Some(Amount::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        let of_size = bytes(self.size).map(|size| size / files);
        // The offset of the last process, as far as it is known in bytes.
        let last = bytes(Some(self.increment))
            .unwrap_or(0)
            .saturating_mul(processes - 1);
        let last = last.saturating_add(bytes(Some(self.offset)).unwrap_or(0));
        let moved = bytes(self.io_size).unwrap_or(0) / files;
        let inherited = before
            .iter()
            .rev()
            .find(|job| !self.job.filenames.is_empty() && job.filenames == self.job.filenames);
        // Bytes of a whole file, from its beginning, and of its part that is accessed.
        let (whole, region) = if let Some([_, most]) = self.filesize {
            (most, most.saturating_sub(last))
        } else if let Some(size) = of_size {
            (size.saturating_add(last), size)
        } else if device.is_some() {
            let whole = DEVICE.max(last.saturating_add(moved));
            (whole, whole.saturating_sub(last))
        } else if let (Some(name), true, None) =
            (self.job.filenames.first(), self.job.reads == 100, inherited)
        {
            // In fio, the file that is there says how long it is.
            let whole = DEVICE.max(last.saturating_add(moved));
            notes.push(format!(
                "{name} is a file of {whole} bytes, as the job says no size"
            ));
            (whole, whole.saturating_sub(last))
        } else if self.job.fill {
            (FILE, FILE.saturating_sub(last))
        } else if let Some(job) = inherited {
            self.job.inherits = true;
            (job.region, job.region.saturating_sub(last))
        } else {
            let what = match self.size {
                Some(_) => "size is a share of a file whose length is not given",
                None => "the job has no size",
            };
            return Err(head.error(what, "size= in bytes or filesize= in its section"));
        };
        let align = match self.offset_align {
            0 => self.job.step(),
            align => align,
        };
        let start = |amount: Amount| match amount {
            Amount::Bytes(bytes) => bytes,
            Amount::Share(_) => amount.of(whole).next_multiple_of(align),
        };
        let job = &mut self.job;
        job.offset = [start(self.offset), start(self.increment)];
        // Where the last process begins: later than at `last` if offsets are shares.
        let begin = job.start(processes as u32 - 1);
        let share = self.size.filter(|size| matches!(size, Amount::Share(_)));
        job.region = region.saturating_sub(begin.saturating_sub(last));
        if let Some(share) = share {
            job.region = job.region.min(share.of(whole));
        }
        job.filesize = self.filesize.filter(|[least, most]| least < most);
        let size = self
            .size
            .map_or(job.region.saturating_mul(files), |size| match size {
                Amount::Bytes(bytes) => bytes,
                Amount::Share(_) => job.region.saturating_mul(files),
            });
        job.total = self.io_size.map_or(size, |io_size| io_size.of(size));
        if begin.saturating_add(job.region) > FILE {
            return Err(head.error(
                "the job's last offset and its size reach beyond the longest file",
                format!("up to {FILE} bytes"),
            ));
        }
        if let Some(device) = device {
            let note = format!(
                "{device} is the file `{}` of the tested filesystem, of {whole} bytes",
                standing_for(&device)
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        Ok(())
    }

    /// Sets what ties the job to others, and what it does beside its requests.
    fn tie(
        &mut self,
        head: &Setting,
        before: &[Job],
        notes: &mut Vec<String>,
    ) -> Result<(), FioError> {
        let job = &mut self.job;
        job.number = before.len();
        if let Some(last) = before.last() {
            job.phase = last.phase + usize::from(job.stonewall);
            job.group = last.group + usize::from(job.stonewall || self.new_group);
        }
        if let Some(s) = &self.wait_for {
            let name = s.text()?;
            let Some(other) = before.iter().position(|other| other.name == name) else {
                return Err(s.error(
                    format!("no job before this one is named `{name}`"),
                    "the name of a job before this one",
                ));
            };
            job.wait_for = Some(other);
        }
        job.exit = self.exitall.then_some(self.exit_what);
        let verifies = self.verify && (self.do_verify || self.backlog > 0) || self.verify_only;
        job.verify = (verifies && job.reads < 100).then_some(Verify {
            backlog: self.backlog,
            batch: if self.batch > 0 {
                self.batch
            } else {
                self.backlog
            },
            only: self.verify_only,
        });
        if self.strided {
            let [size, skip, range] = self.zone;
            if size == 0 {
                return Err(
                    head.error("zonemode=strided without a zonesize", "zonesize= beside it")
                );
            }
            let step = if range > 0 { range } else { size }.saturating_add(skip);
            job.stride = Some(Stride {
                size: size.min(step),
                step,
            });
        }
        job.target = (self.target.ns > 0).then_some(self.target);
        if job.target.is_some_and(|target| target.window_ns == 0) {
            return Err(head.error(
                "latency_target without the time over which it is judged",
                "latency_window= beside it",
            ));
        }
        if job.access == Access::Truncate && job.reads > 0 {
            return Err(head.error("ioengine=ftruncate with reads", "rw=write or rw=randwrite"));
        }
        if let Some(steady) = &mut job.steady {
            steady.seconds = self.steady_ns / 1_000_000_000;
            steady.ramp_ns = self.steady_ramp_ns;
        }
        // As in fio, no time means that no steady state is looked for.
        if job.steady.is_some_and(|steady| steady.seconds == 0) {
            job.steady = None;
            notes.push(format!(
                "job {}: steadystate has no effect without steadystate_duration (ss_dur)",
                job.name
            ));
        }
        Ok(())
    }

    /// Checks that the job's values fit together.
    fn fits(&self, head: &Setting) -> Result<(), FioError> {
        let job = &self.job;
        let (_, largest) = job.sizes();
        let region = job
            .filesize
            .map_or(job.region, |[least, _]| job.region.min(least));
        if largest > region {
            return Err(head.error(
                format!("a block of {largest} bytes does not fit the file of {region} bytes"),
                "bs= up to the file's size",
            ));
        }
        if job.time_based && job.runtime_ns == 0 {
            return Err(head.error("time_based without a runtime", "runtime= beside it"));
        }
        let blocks = job.region / job.step();
        if matches!(job.distribution, Distribution::Skewed(Skew::Zipf(_), _)) && blocks > MOST_RANKS
        {
            return Err(head.error(
                format!("zipf over {blocks} blocks"),
                format!("up to {MOST_RANKS} blocks: a smaller file or larger blocks"),
            ));
        }
        Ok(())
    }

    /// Sets how many requests are in flight, and says where that or the block size is not as the
    /// job has it.
    fn queue(&mut self, notes: &mut Vec<String>) {
        let job = &mut self.job;
        let deep = match job.access {
            _ if self.offload => true,
            Access::Uring => true,
            Access::Aio => job.direct,
            _ => false,
        };
        if job.depth > 1 && !deep {
            notes.push(format!(
                "job {}: iodepth={} has no effect with {}: libaio with direct=1, io_uring and \
                 io_submit_mode=offload keep several requests in flight",
                job.name, job.depth, self.engine
            ));
            job.depth = 1;
        }
        let whole = |bytes: u64| bytes.is_multiple_of(4096);
        if job.direct && !(whole(job.sizes().0) && whole(job.sizes().1) && whole(job.offset[0])) {
            notes.push(format!(
                "job {}: a direct request that is not whole pages moves the pages that it touches, \
                 as the simulated device has blocks of 4 KiB",
                job.name
            ));
        }
    }
}
