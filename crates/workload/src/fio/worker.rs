//! The tasks that issue the requests of a job.

use super::job::{Access as Engine, Job, is_device};
use super::order::{Access, Tables};
use super::pace::Board;
use super::requests::{Next, Progress, Request};
use crate::host::{Fd, Host, HostError, HostResult, Map, MapId, OpenFlags, Task, Word};
use crate::measure::{CALLS, Kind};
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::{Session, lock};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Nanoseconds between two looks of a job at the one that it waits for, as in fio.
const LOOK_NS: u64 = 10_000_000;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// One of the tasks that issue a process's requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    job: Arc<Job>,
    /// The number of the process in its job.
    nth: u32,
    /// The number of the process in the script.
    process: usize,
    /// The number of the task in its process.
    slot: u64,
}

/// A file that a worker has open, with its mapping if the engine maps it.
#[derive(Clone, Copy)]
struct Opened {
    number: u64,
    fd: Fd,
    map: Option<MapId>,
}

impl Task for Worker {
    const NAME: &'static str = "fio";

    /// Opens the process's files, issues requests together with the process's other workers until
    /// the job ends, and closes the files. The last worker to end calls fsync if the job has
    /// `end_fsync`, and removes the files if the job has `unlink`. Latencies are noted in the
    /// session, so the report is empty.
    async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
        let job = &*self.job;
        let board = Self::board(session);
        if let Some(other) = job.wait_for {
            while lock(board).runs(other) {
                host.sleep(LOOK_NS).await;
            }
        }
        let delay = job.delay(self.nth);
        if delay > 0 {
            host.sleep(delay).await;
        }
        let mut open = VecDeque::new();
        let whole_files = matches!(job.access, Engine::Create | Engine::Stat | Engine::Delete);
        let result = match whole_files {
            true => self.file_calls(host, session).await,
            false => match self.prepare_files(host, &mut open).await {
                Ok(()) => self.requests(host, session, &mut open).await,
                failed => failed,
            },
        };
        let last = {
            let mut p = lock(self.progress(session));
            p.ended += 1;
            p.ended == job.depth
        };
        if last {
            lock(board).end(job, self.nth);
        }
        if result.is_ok() && last && job.end_fsync && job.writes() {
            for number in 0..job.files {
                let file = self.file(host, &mut open, number).await?;
                host.sync(file.fd, false).await?;
            }
        }
        while let Some(file) = open.pop_front() {
            self.close(host, file).await?;
        }
        if result.is_ok() && last && job.unlink {
            self.remove_files(host, session).await?;
        }
        result.map(|()| Report::default())
    }
}

impl Program for Worker {
    const METRICS: &'static [Metric] = CALLS;

    /// Returns the files that the task's process makes, if those are many.
    fn files(&self) -> u64 {
        let makes = self.slot == 0 && !self.job.finds_files();
        if makes && self.job.files > 1 {
            self.job.files
        } else {
            0
        }
    }

    /// Adds the progress that all workers of a process share to the session, the tables that all
    /// processes of a job share, and the board that all jobs share.
    fn prepare(&self, session: &mut Session) {
        session.share(self.job.number, || Tables::new(&self.job));
        session.share(0, || Mutex::new(Board::default()));
        let tables: Tables = session.shared::<Tables>(self.job.number).clone();
        let progress = || Mutex::new(Progress::new(&self.job, self.nth, &tables));
        if session.share(self.process, progress) {
            lock(Self::board(session)).expect(&self.job);
        }
        session.expect_calls();
    }
}

impl Worker {
    /// Makes the task number `slot` of a job's `nth` process, which has number `process` in the
    /// script.
    pub(crate) fn new(job: &Arc<Job>, nth: u32, process: usize, slot: u64) -> Self {
        Self {
            job: Arc::clone(job),
            nth,
            process,
            slot,
        }
    }

    /// Returns the job whose requests the task issues.
    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the progress that the workers of this process share.
    fn progress<'a>(&self, session: &'a Session) -> &'a Mutex<Progress> {
        session.shared(self.process)
    }

    /// Returns the board that all jobs share.
    fn board(session: &Session) -> &Mutex<Board> {
        session.shared(0)
    }

    /// Opens the first file. The process's first worker reads the files into the page cache
    /// (`pre_read`), or drops their cached pages if an earlier job may have left some.
    async fn prepare_files<H: Host>(
        &self,
        host: &H,
        open: &mut VecDeque<Opened>,
    ) -> HostResult<()> {
        let job = &*self.job;
        self.file(host, open, 0).await?;
        if self.slot > 0 || !(job.pre_read || job.invalidate && job.used_before) {
            return Ok(());
        }
        for number in 0..job.files {
            let file = self.file(host, open, number).await?;
            if !job.pre_read {
                host.drop_cache(file.fd).await?;
                continue;
            }
            let mut buffer = host.buffer(1 << 20);
            let mut at = job.start(self.nth);
            let end = at + job.region;
            while at < end && job.reads() {
                let len = (end - at).min(1 << 20);
                match host.read_at(file.fd, &mut buffer, at, len).await? {
                    0 => break,
                    done => at += done,
                }
            }
        }
        Ok(())
    }

    /// Returns a file of the process, which is opened unless it is open. If as many files are open
    /// as may be (`openfiles`), the one that was opened first is closed.
    async fn file<H: Host>(
        &self,
        host: &H,
        open: &mut VecDeque<Opened>,
        number: u64,
    ) -> HostResult<Opened> {
        let job = &*self.job;
        if let Some(file) = open.iter().find(|file| file.number == number) {
            return Ok(*file);
        }
        let full = job.open_files > 0 && open.len() as u64 >= job.open_files;
        if let Some(first) = full.then(|| open.pop_front()).flatten() {
            self.close(host, first).await?;
        }
        let flags = OpenFlags {
            read: job.reads() || job.pre_read || job.access == Engine::Mapped,
            write: job.writes(),
            create: true,
            direct: job.direct,
            sync: job.sync,
            dsync: job.dsync,
            ..OpenFlags::default()
        };
        let path = job.path(self.nth, number);
        let fd = host.open(&path, flags).await?;
        if let Some(advice) = job.advice().filter(|_| !path.starts_with("/dev/")) {
            host.fadvise(fd, advice).await?;
        }
        let map = match job.access {
            Engine::Mapped => {
                let len = (job.start(self.nth) + job.region).next_multiple_of(PAGE);
                let advice = job.advice().unwrap_or_default();
                Some(host.map(Map::Shared(fd), len, advice).await?)
            }
            _ => None,
        };
        let file = Opened { number, fd, map };
        open.push_back(file);
        Ok(file)
    }

    /// Closes a file, after fsync if the job has `fsync_on_close`.
    async fn close<H: Host>(&self, host: &H, file: Opened) -> HostResult<()> {
        if self.job.fsync_on_close && self.job.writes() {
            host.sync(file.fd, false).await?;
        }
        if let Some(map) = file.map {
            host.unmap(map).await?;
        }
        host.close(file.fd).await
    }

    /// Removes the process's files, or those that all processes of the job share after the last of
    /// them.
    async fn remove_files<H: Host>(&self, host: &H, session: &Session) -> HostResult<()> {
        let job = &*self.job;
        if !job.filenames.is_empty() && lock(Self::board(session)).runs(job.number) {
            return Ok(());
        }
        for number in 0..job.files {
            let path = job.path(self.nth, number);
            if path.starts_with("/dev/") || job.filenames.iter().any(|name| is_device(name)) {
                continue;
            }
            match host.unlink(&path).await {
                Ok(()) | Err(HostError::NotFound(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Issues requests until the process's job ends: waits for the rate limit, reads or writes,
    /// syncs, and pauses (`thinktime`). Latencies are noted after the ramp time.
    async fn requests<H: Host>(
        &self,
        host: &H,
        session: &Session,
        open: &mut VecDeque<Opened>,
    ) -> HostResult<()> {
        let (job, progress) = (&*self.job, self.progress(session));
        let board = Self::board(session);
        // A direct request may be widened to the pages around it.
        let mut buffer = host.buffer(job.sizes().1 + if job.direct { 2 * PAGE } else { 0 });
        // False in the ramp time, whose calls are not measured.
        let measured = |began: u64| {
            if job.ramp_ns == 0 {
                return true;
            }
            let started = lock(progress).started.unwrap_or(0);
            // Another CPU's clock may lag behind after a task has moved.
            began.saturating_sub(started) >= job.ramp_ns
        };
        loop {
            let next = lock(progress).next(job, self.slot, host.now(), &mut lock(board));
            let r = match next {
                Next::Issue(request) => request,
                Next::Wait(ns) => {
                    host.sleep(ns).await;
                    continue;
                }
                Next::End => return Ok(()),
            };
            let early = r.not_before.saturating_sub(host.now());
            if early > 0 {
                host.sleep(early).await;
            }
            let file = self.file(host, open, r.access.file).await?;
            if r.settle {
                host.sync(file.fd, false).await?;
                host.drop_cache(file.fd).await?;
            }
            let began = host.now();
            let done = self.issue(host, &mut buffer, file, &r.access).await;
            let Some(done) = self.tolerated(session, &r, done)? else {
                continue;
            };
            let kind = if r.access.write {
                Kind::Write
            } else {
                Kind::Read
            };
            let ended = host.now();
            if measured(began) {
                session.note(kind, (began, ended), done, r.access.len);
            }
            lock(progress).done(job, ended, ended.saturating_sub(began), done);
            if let Some(data_only) = r.sync {
                let began = host.now();
                host.sync(file.fd, data_only).await?;
                if measured(began) {
                    session.note(Kind::Sync, (began, host.now()), 0, 0);
                }
            }
            if r.think {
                self.pause(host).await;
            }
        }
    }

    /// Makes one call for each of the process's files: open and close (`filecreate`), stat
    /// (`filestat`) or unlink (`filedelete`).
    async fn file_calls<H: Host>(&self, host: &H, session: &Session) -> HostResult<()> {
        let job = &*self.job;
        let begun = host.now();
        let kind = if job.writes() {
            Kind::Write
        } else {
            Kind::Read
        };
        for number in 0..job.files {
            let late = job.runtime_ns > 0 && host.now().saturating_sub(begun) >= job.runtime_ns;
            if late || lock(Self::board(session)).stops(job) {
                break;
            }
            let path = job.path(self.nth, number);
            let began = host.now();
            match job.access {
                Engine::Create => {
                    let flags = OpenFlags {
                        write: true,
                        create: true,
                        ..OpenFlags::default()
                    };
                    let fd = host.open(&path, flags).await?;
                    host.close(fd).await?;
                }
                Engine::Stat => drop(host.stat(&path).await?),
                _ => host.unlink(&path).await?,
            }
            session.note(kind, (began, host.now()), 0, 0);
        }
        Ok(())
    }

    /// Pauses between requests: first busy (`thinktime_spin`), then asleep.
    async fn pause<H: Host>(&self, host: &H) {
        let think = &self.job.think;
        if think.spin_ns > 0 {
            host.compute(think.spin_ns).await;
        }
        if think.ns > think.spin_ns {
            host.sleep(think.ns - think.spin_ns).await;
        }
    }

    /// Makes one request and returns how many of its bytes were moved.
    async fn issue<H: Host>(
        &self,
        host: &H,
        buffer: &mut H::Buf,
        file: Opened,
        access: &Access,
    ) -> HostResult<u64> {
        let (mut from, mut len) = (access.offset, access.len);
        if self.job.direct || file.map.is_some() {
            from = access.offset / PAGE * PAGE;
            len = (access.offset + access.len).next_multiple_of(PAGE) - from;
        }
        if let Some(map) = file.map {
            let word = Word {
                expect: None,
                store: access.write.then_some(1),
            };
            host.touch(map, from / PAGE, len / PAGE, word).await?;
            return Ok(access.len);
        }
        if self.job.access == Engine::Truncate {
            host.truncate(file.fd, access.offset).await?;
            return Ok(access.len);
        }
        let done = match access.write {
            true => host.write_at(file.fd, buffer, from, len).await?,
            false => host.read_at(file.fd, buffer, from, len).await?,
        };
        Ok(done.saturating_sub(access.offset - from).min(access.len))
    }

    /// Returns the bytes that a call moved; `None`: the call failed, and the job goes on or ends by
    /// itself. The error of a call that the job does not tolerate is returned.
    fn tolerated(
        &self,
        session: &Session,
        request: &Request,
        done: HostResult<u64>,
    ) -> HostResult<Option<u64>> {
        let job = &*self.job;
        match done {
            // The file of an earlier job is shorter than the job knows.
            Ok(0) if job.inherits && !request.access.write => {
                lock(self.progress(session)).exhaust(job);
                Ok(None)
            }
            Ok(done) => Ok(Some(done)),
            Err(HostError::NoSpace(_)) if job.fill => {
                lock(self.progress(session)).exhaust(job);
                Ok(None)
            }
            Err(HostError::NoSpace(_) | HostError::Io(_) | HostError::TooLarge(_))
                if match request.access.write {
                    true => job.tolerant.writes,
                    false => job.tolerant.reads,
                } =>
            {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}
