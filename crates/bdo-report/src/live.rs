//! The page of a run, served while it grows: on loopback only, with two fixed routes; nothing is written, and no path is
//! taken from a request.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bdo_data::record::JournalText;
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::report::page_of;
use crate::source;

/// Connections at once; more are refused, so that a flood cannot slow the training.
const MOST_CONNECTIONS: usize = 32;
/// A request's head must be complete within this time and size.
const REQUEST_TIME: Duration = Duration::from_secs(5);
const REQUEST_BYTES: usize = 8 << 10;
/// An answer must be received within this time.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// Entries in one answer; a page that is far behind asks again.
const MOST_ENTRIES: usize = 2000;
const LOOK: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub struct LiveServer {
    listener: TcpListener,
    address: SocketAddr,
    run: PathBuf,
    version: String,
}

impl LiveServer {
    /// Listens on 127.0.0.1; port 0 takes any that is free.
    pub fn bind(run: &Path, port: u16, version: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        Ok(Self { address: listener.local_addr()?, listener, run: run.to_path_buf(), version: version.to_owned() })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until told to stop; connections that are open then are ended by their own time limits.
    pub fn serve(&self, stop: &AtomicBool) -> io::Result<()> {
        let open = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                let stream = match self.listener.accept() {
                    Ok((stream, _)) => stream,
                    // A connection that failed while being accepted does not end the server.
                    Err(error) if is_temporary(&error) || error.kind() == io::ErrorKind::ConnectionAborted => {
                        std::thread::sleep(LOOK);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                if open.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
                    open.fetch_sub(1, Ordering::SeqCst);
                    turn_away(stream);
                    continue;
                }
                let open = &open;
                scope.spawn(move || {
                    // A client that disconnects or is too slow is its own problem.
                    let _ = self.answer(stream, stop);
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
            Ok(())
        })
    }

    fn answer(&self, mut stream: TcpStream, stop: &AtomicBool) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let answer = match read_head(&mut stream, stop)? {
            Head::Whole(head) => self.respond(&head),
            Head::Broken => Answer::error(400, "expected a request of at most 8 KiB within 5 s"),
            // Browsers open connections in advance and take whatever is sent there for the answer to a later request.
            Head::Silence => return Ok(()),
        };
        answer.send(&mut stream, stop)
    }

    fn respond(&self, head: &str) -> Answer {
        let Some(request) = Request::parse(head) else { return Answer::error(400, "expected a request of HTTP/1.1") };
        let allowed = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{}", self.address.port()));
        // Another name means that a foreign page points its own name to this address (DNS rebinding).
        if !allowed.iter().any(|a| request.host.eq_ignore_ascii_case(a)) {
            return Answer::error(421, "this server only answers to its own address");
        }
        let ours = |origin: &str| allowed.iter().any(|a| origin.eq_ignore_ascii_case(&format!("http://{a}")));
        if request.origin.as_deref().is_some_and(|o| !ours(o)) || request.cross_site {
            return Answer::error(403, "requests of other sites are not answered");
        }
        if request.method != "GET" && request.method != "HEAD" {
            return Answer::error(405, "only GET and HEAD");
        }
        let mut answer = match request.target.split_once('?').unwrap_or((&request.target, "")) {
            ("/", "") => Answer::new(200, "text/html; charset=utf-8", self.page()),
            ("/journal.json", query) => match after(query) {
                Some(after) => Answer::new(200, "application/json", self.news(after).to_string()),
                None => Answer::error(400, "expected after=N"),
            },
            _ => Answer::error(404, "there is only / and /journal.json"),
        };
        answer.without_body = request.method == "HEAD";
        answer
    }

    fn page(&self) -> String {
        let lines = self.journal_text().matches('\n').count() as u64;
        let paths = [(self.run.clone(), Kind::Run)];
        match page_of(&paths, &format!("bdo serve {}", self.run.display())) {
            Ok(mut page) => {
                page.live(lines);
                page.finish(&self.version)
            }
            Err(error) => error.to_string(),
        }
    }

    fn journal_text(&self) -> String {
        source::text(&self.run.join("journal.jsonl")).unwrap_or_default()
    }

    /// Entries after so many lines; `next` is where to go on.
    fn news(&self, after: usize) -> Value {
        let text = self.journal_text();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let lines: Vec<&str> = whole.skip(after).take(MOST_ENTRIES).collect();
        let entries: Vec<Value> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let unreadable = JournalText::parse(&lines.concat()).unreadable;
        json!({"next": after + lines.len(), "entries": entries, "unreadable": unreadable, "running": is_running(&self.run)})
    }
}

/// Whether a run is going on in this folder: it keeps its lock file locked.
pub fn is_running(run: &Path) -> bool {
    let Ok(file) = std::fs::File::open(run.join("lock")) else { return false };
    matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
}

fn after(query: &str) -> Option<usize> {
    match query {
        "" => Some(0),
        query => query.strip_prefix("after=")?.parse().ok(),
    }
}

struct Request {
    method: String,
    target: String,
    host: String,
    origin: Option<String>,
    cross_site: bool,
}

impl Request {
    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, target, version) = (first.next()?, first.next()?, first.next()?);
        if first.next().is_some() || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return None;
        }
        let (mut host, mut origin, mut cross_site) = (None, None, false);
        for line in lines.take_while(|l| !l.is_empty()) {
            let (name, value) = line.split_once(':')?;
            match name.to_ascii_lowercase().as_str() {
                // Requests with two hosts are refused.
                "host" if host.is_some() => return None,
                "host" => host = Some(value.trim().to_owned()),
                "origin" if origin.is_some() => return None,
                "origin" => origin = Some(value.trim().to_owned()),
                "sec-fetch-site" => cross_site = matches!(value.trim(), "cross-site" | "same-site"),
                _ => {}
            }
        }
        Some(Self { method: method.to_owned(), target: target.to_owned(), host: host?, origin, cross_site })
    }
}

enum Head {
    Whole(String),
    /// Too slow, too long, or not UTF-8.
    Broken,
    /// Nothing was sent.
    Silence,
}

/// Reads up to the empty line. The time limit counts from the first byte, so that a request that comes late is not cut short.
fn read_head(stream: &mut TcpStream, stop: &AtomicBool) -> io::Result<Head> {
    let mut until = Instant::now() + REQUEST_TIME;
    let (mut head, mut some) = (Vec::new(), [0u8; 1024]);
    // Short timeouts, so that a silent client does not keep the server from stopping.
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    loop {
        match stream.read(&mut some) {
            Ok(0) => return Ok(if head.is_empty() { Head::Silence } else { Head::Broken }),
            Ok(count) => {
                if head.is_empty() {
                    until = Instant::now() + REQUEST_TIME;
                }
                head.extend_from_slice(&some[..count]);
            }
            Err(error) if is_temporary(&error) => {}
            Err(error) => return Err(error),
        }
        if let Some(end) = head.windows(4).position(|w| w == b"\r\n\r\n") {
            return Ok(String::from_utf8(head[..end + 2].to_vec()).map_or(Head::Broken, Head::Whole));
        }
        if head.len() > REQUEST_BYTES || Instant::now() > until || stop.load(Ordering::Relaxed) {
            return Ok(if head.is_empty() { Head::Silence } else { Head::Broken });
        }
    }
}

/// Whether something may be tried again.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

struct Answer {
    status: u16,
    kind: &'static str,
    body: String,
    without_body: bool,
}

impl Answer {
    fn new(status: u16, kind: &'static str, body: String) -> Self {
        Self { status, kind, body, without_body: false }
    }

    fn error(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    fn send(&self, stream: &mut TcpStream, stop: &AtomicBool) -> io::Result<()> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            421 => "Misdirected Request",
            _ => "Service Unavailable",
        };
        let allow = if self.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\nConnection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        let body = if self.without_body { "" } else { &self.body };
        let bytes = [head.as_bytes(), body.as_bytes()].concat();
        let until = Instant::now() + ANSWER_TIME;
        stream.set_write_timeout(Some(Duration::from_millis(500)))?;
        let mut sent = 0;
        while sent < bytes.len() {
            match stream.write(&bytes[sent..]) {
                Ok(0) => break,
                Ok(count) => sent += count,
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() > until || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }
}

fn turn_away(mut stream: TcpStream) {
    let never = AtomicBool::new(true);
    let _ = stream.set_nonblocking(true);
    let _ = Answer::error(503, "too many connections").send(&mut stream, &never);
}
