//! The cache's metrics server, on loopback only ([`crate::Config::metrics`]): answers
//! `GET /metrics` and nothing else.
//!
//! One thread answers one client at a time and closes the connection; further clients wait in the
//! system's queue. A slow client is dropped: a request must arrive within [`PATIENCE`], and the
//! answer be taken within the same time. The thread waits for its client and for the end of the
//! cache in one system call, so a shutdown does not wait for a client. This much of HTTP/1 is a
//! page of code; a library would bring its own executor.

use crate::error::Error;
use crate::metrics::Form;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a request may take to arrive, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(1);
/// Largest request in bytes, up to its empty line.
const MOST_REQUEST: usize = 8 << 10;
/// The only path that is served.
const PATH: &str = "/metrics";

/// The event that the cache ends; set once.
#[derive(Clone)]
pub(crate) struct Stop(Arc<OwnedFd>);

impl Stop {
    pub fn ring(&self) {
        // An error means that the counter is full: it was set before.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// An open port that is not served yet.
pub(crate) struct Listener {
    listener: TcpListener,
    /// Its address, with the port that the system chose.
    pub address: SocketAddr,
    stop: Stop,
}

/// Why a client's connection is given up.
enum Quit {
    /// The client closed it, or its time is over.
    Gone,
    /// The cache ends.
    Stopped,
}

/// The answer to a client.
struct Answer {
    status: &'static str,
    form: Form,
    body: String,
    /// Further header lines.
    head: &'static str,
}

impl Listener {
    /// Opens the port.
    ///
    /// # Errors
    /// [`Error::Config`]: other machines can reach the address, or the system does not give it.
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let refuse =
            |why: &dyn std::fmt::Display| Err(Error::Config(format!("metrics = {address}: {why}")));
        if !address.ip().is_loopback() {
            return refuse(&"accepted are only addresses of this machine, such as 127.0.0.1:9100");
        }
        let opened = || -> std::io::Result<Self> {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Self {
                address: listener.local_addr()?,
                listener,
                stop: Stop(Arc::new(stop)),
            })
        };
        opened().or_else(|e| refuse(&e))
    }

    /// Returns the event that ends [`Listener::serve`].
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Answers clients with the page in the form that they ask for, one after the other, until the
    /// cache ends.
    pub fn serve(&self, page: &dyn Fn(Form) -> String) {
        loop {
            if let Err(Quit::Stopped) = self.wait(&self.listener, PollFlags::IN, None) {
                return;
            }
            let client = match self.listener.accept() {
                Ok((client, from)) if from.ip().is_loopback() => client,
                Ok(_) => continue,
                Err(e) => {
                    // Without a free descriptor the client stays in the queue: wait before the next
                    // attempt.
                    if e.kind() != ErrorKind::WouldBlock {
                        let soon = Some(Instant::now() + PATIENCE / 10);
                        let _ = self.wait(&self.stop.0, PollFlags::empty(), soon);
                    }
                    continue;
                }
            };
            if let Err(Quit::Stopped) = self.client(&client, page) {
                return;
            }
        }
    }

    /// Waits until `what` is ready to be read or written (`ready`). Fails with `Gone` if `until`
    /// comes before or polling fails, and with `Stopped` if the cache ends.
    fn wait(&self, what: &impl AsFd, ready: PollFlags, until: Option<Instant>) -> Result<(), Quit> {
        loop {
            let left = until.map(|t| t.saturating_duration_since(Instant::now()));
            let timeout = left.map(|left| Timespec {
                tv_sec: left.as_secs() as _,
                tv_nsec: left.subsec_nanos().into(),
            });
            let mut both = [
                PollFd::new(&*self.stop.0, PollFlags::IN),
                PollFd::new(what, ready),
            ];
            match poll(&mut both, timeout.as_ref()) {
                Err(Errno::INTR) => continue,
                Err(_) | Ok(0) => return Err(Quit::Gone),
                Ok(_) => {}
            }
            return match both[0].revents().is_empty() {
                true => Ok(()),
                false => Err(Quit::Stopped),
            };
        }
    }

    /// Reads a client's request and answers it, with the metrics page or with the status that
    /// refuses the request.
    fn client(&self, client: &TcpStream, page: &dyn Fn(Form) -> String) -> Result<(), Quit> {
        client.set_nonblocking(true).map_err(|_| Quit::Gone)?;
        let answer = match self.request(client)? {
            Ok(request) => answer(&request, page),
            Err(refused) => refused,
        };
        self.answer(client, &answer)
    }

    /// Reads a client's request up to the empty line. The inner error is the answer that refuses a
    /// request too slow, too long or not in UTF-8; the outer one says why the connection is given
    /// up.
    fn request(&self, mut client: &TcpStream) -> Result<Result<String, Answer>, Quit> {
        let until = Instant::now() + PATIENCE;
        let (mut request, mut part) = (Vec::new(), [0; 1024]);
        loop {
            match self.wait(&client, PollFlags::IN, Some(until)) {
                Err(Quit::Gone) => return Ok(Err(Answer::bare("408 Request Timeout"))),
                other => other?,
            }
            match client.read(&mut part) {
                Ok(0) => return Err(Quit::Gone),
                Ok(n) => request.extend_from_slice(&part[..n]),
                Err(e) if is_to_repeat(e.kind()) => continue,
                Err(_) => return Err(Quit::Gone),
            }
            let end = request.windows(4).position(|w| w == b"\r\n\r\n");
            match end {
                Some(end) if end <= MOST_REQUEST => {
                    request.truncate(end);
                    return Ok(
                        String::from_utf8(request).map_err(|_| Answer::bare("400 Bad Request"))
                    );
                }
                None if request.len() <= MOST_REQUEST => {}
                _ => return Ok(Err(Answer::bare("431 Request Header Fields Too Large"))),
            }
        }
    }

    /// Sends an answer, and reads the rest of the client's input until it closes, so that the
    /// answer is not discarded.
    fn answer(&self, mut client: &TcpStream, answer: &Answer) -> Result<(), Quit> {
        let until = Instant::now() + PATIENCE;
        let text = answer.text();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            self.wait(&client, PollFlags::OUT, Some(until))?;
            match client.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(e) if is_to_repeat(e.kind()) => {}
                Err(_) => return Err(Quit::Gone),
            }
        }
        // To close with unread input pending would discard the answer (TCP reset), so read the
        // rest.
        let _ = client.shutdown(std::net::Shutdown::Write);
        let mut most = MOST_REQUEST;
        while most > 0 && Instant::now() < until {
            self.wait(&client, PollFlags::IN, Some(until))?;
            match client.read(&mut [0; 1024]) {
                Ok(0) => break,
                Ok(n) => most = most.saturating_sub(n),
                Err(e) if is_to_repeat(e.kind()) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }
}

/// Returns true if an I/O call did nothing and is to be repeated.
fn is_to_repeat(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Returns the answer to a request: the metrics page in the form that the client accepts, or a
/// status that refuses it.
fn answer(request: &str, page: &dyn Fn(Form) -> String) -> Answer {
    let mut lines = request.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or("").split(' ').collect();
    let [method, target, "HTTP/1.0" | "HTTP/1.1"] = words[..] else {
        return Answer::bare("400 Bad Request");
    };
    if target.split('?').next() != Some(PATH) {
        return Answer::bare("404 Not Found");
    }
    if method != "GET" {
        return Answer {
            head: "Allow: GET\r\n",
            ..Answer::bare("405 Method Not Allowed")
        };
    }
    let accepts = lines
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let mut accepts = accepts.map(|(_, value)| value.to_ascii_lowercase());
    let form = match accepts.any(|value| value.contains("application/openmetrics-text")) {
        true => Form::OpenMetrics,
        false => Form::Text,
    };
    Answer {
        status: "200 OK",
        form,
        body: page(form),
        head: "",
    }
}

impl Answer {
    /// Returns an answer that consists of a status and the hint to the path that is served.
    fn bare(status: &'static str) -> Self {
        Self {
            status,
            form: Form::Text,
            body: format!("{status}; served is GET {PATH}\n"),
            head: "",
        }
    }

    /// Returns the answer as it is sent to the client: status line, headers and body.
    fn text(&self) -> String {
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}",
            self.status,
            self.form.media(),
            self.body.len(),
            self.head,
            self.body
        )
    }
}
