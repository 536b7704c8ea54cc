//! What is served, to whom, and what is not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bdo_report::live::LiveServer;

use crate::fixture::{journal_line, run_folder};

/// Long enough for any machine; nothing takes so long unless it is broken.
const PATIENCE: Duration = Duration::from_mins(2);

const SECRET: &str = "the-secret-of-another-file";

/// Serves a run while the check runs; also its folder.
fn serving(check: impl FnOnce(SocketAddr, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    run_folder(&run, 30);
    // Secrets beside, above and inside the run: no route leads to a file.
    std::fs::create_dir_all(run.join("model")).unwrap();
    for place in ["secret.txt", "run/secret.txt", "run/model/config.json"] {
        std::fs::write(folder.path().join(place), SECRET).unwrap();
    }
    let server = LiveServer::bind(&run, 0, "0.1.0").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&stop));
        // The server must end even if a check fails.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(server.address(), &run)));
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(address: SocketAddr, target: &str) -> String {
    ask(address, format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0)
}

#[test]
fn the_page_and_the_journal_are_served_and_grow() {
    serving(|address, run| {
        let page = get(address, "/");
        assert_eq!(status(&page), 200);
        assert!(page.contains("Loss terms") && page.contains("id=\"live\"") && page.contains("connect-src 'self'"));
        let body = |answer: &str| -> serde_json::Value {
            serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
        };
        let first = body(&get(address, "/journal.json"));
        assert_eq!(first["running"], false);
        // 30 steps and one validation; the unfinished line is not there yet.
        assert_eq!((first["next"].as_u64(), first["entries"].as_array().unwrap().len()), (Some(31), 31));
        let journal = run.join("journal.jsonl");
        let text = std::fs::read_to_string(&journal).unwrap();
        let whole = text.rsplit_once('\n').unwrap().0.to_owned() + "\n";
        std::fs::write(&journal, whole + &journal_line(30)).unwrap();
        let news = body(&get(address, "/journal.json?after=31"));
        assert_eq!((news["next"].as_u64(), news["entries"][0]["step"].as_u64()), (Some(32), Some(30)));
        assert_eq!(body(&get(address, "/journal.json?after=99"))["entries"].as_array().unwrap().len(), 0);
        for bad in [
            "/journal.json?after=-1",
            "/journal.json?after=x",
            "/journal.json?before=1",
            "/journal.json?after=1&after=2",
        ] {
            assert_eq!(status(&get(address, bad)), 400, "{bad}");
        }
        let head = ask(address, format!("HEAD / HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", address.port()).as_bytes());
        assert!(status(&head) == 200 && head.ends_with("\r\n\r\n"));
    });
}

#[test]
fn two_hundred_ways_out_lead_nowhere() {
    let ups = ["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..\\", "..%5c", "..%252f", "%c0%ae%c0%ae/", ".%2e/", "....//"];
    let files = ["secret.txt", "run/secret.txt", "run.json", "config.toml", "etc/passwd"];
    let starts = ["/", "/journal.json/", "//", "/./"];
    let mut targets: Vec<String> = vec![];
    for up in ups {
        for file in files {
            for start in starts {
                targets.push(format!("{start}{}{file}", up.repeat(1 + targets.len() % 7)));
            }
        }
    }
    assert_eq!(targets.len(), 200);
    serving(|address, run| {
        let absolute = run.join("secret.txt").display().to_string();
        let more = [
            "/secret.txt",
            "/model/config.json",
            "/run.json",
            "file:///etc/passwd",
            "secret.txt",
            "*",
            "/%00",
            "http://evil.example/",
            &absolute,
        ];
        for target in targets.iter().map(String::as_str).chain(more) {
            let answer = get(address, target);
            assert!(matches!(status(&answer), 400 | 404), "{target}: {answer}");
            assert!(!answer.contains(SECRET) && !answer.contains("root:") && !answer.contains("identity"), "{target}");
        }
        assert!(!get(address, "/").contains(SECRET));
    });
}

#[test]
fn other_hosts_origins_and_methods_are_refused() {
    serving(|address, _| {
        let port = address.port();
        for host in [
            "evil.example",
            "127.0.0.1",
            "127.0.0.1:1",
            &format!("evil.example:{port}"),
            &format!("127.0.0.1.evil.example:{port}"),
            &format!("0.0.0.0:{port}"),
            "",
        ] {
            assert_eq!(
                status(&ask(address, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())),
                421,
                "{host}"
            );
        }
        for request in [
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            format!("GET / HTTP/1.1\r\nHost: {address}\r\nHost: {address}\r\n\r\n"),
            format!("GET / HTTP/2\r\nHost: {address}\r\n\r\n"),
            "nonsense\r\n\r\n".to_owned(),
            "\r\n\r\n".to_owned(),
        ] {
            assert_eq!(status(&ask(address, request.as_bytes())), 400, "{request:?}");
        }
        let with = |line: &str| {
            status(&ask(address, format!("GET /journal.json HTTP/1.1\r\nHost: {address}\r\n{line}\r\n\r\n").as_bytes()))
        };
        for line in [
            "Origin: http://evil.example",
            "Origin: null",
            "Origin: https://localhost",
            "Sec-Fetch-Site: cross-site",
            &format!("Origin: http://127.0.0.1:{}", port.wrapping_add(1)),
        ] {
            assert_eq!(with(line), 403, "{line}");
        }
        assert_eq!(with(&format!("Origin: http://localhost:{port}")), 200);
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get"] {
            assert_eq!(
                status(&ask(
                    address,
                    format!("{method} / HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n").as_bytes()
                )),
                405,
                "{method}"
            );
        }
        let long = format!("GET / HTTP/1.1\r\nHost: {address}\r\nX: {}\r\n\r\n", "a".repeat(20 << 10));
        assert!(matches!(status(&ask(address, long.as_bytes())), 400 | 0));
    });
}

#[test]
fn a_silent_connection_ends_without_a_word() {
    serving(|address, _| {
        // A browser opens a second connection ahead of need. An error said there was taken for the answer to its next request.
        let mut silent = TcpStream::connect(address).unwrap();
        assert_eq!(status(&get(address, "/journal.json")), 200, "silence keeps nobody from being answered");
        silent.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut said = Vec::new();
        assert_eq!(silent.read_to_end(&mut said).unwrap(), 0, "{}", String::from_utf8_lossy(&said));
        // Nor is anything said to who goes away again; half a word has its answer.
        let said_after = |word: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(word).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            said
        };
        assert_eq!(said_after(b""), "");
        assert_eq!(status(&said_after(b"GET / HT")), 400);
    });
}

/// Whether the server has neither said anything on a connection nor ended it.
fn is_held(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    stream.peek(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn slow_and_many_clients_hold_nobody_up() {
    serving(|address, _| {
        let started = Instant::now();
        loop {
            // Forty clients that say half a word: more than there is room for.
            let slow: Vec<TcpStream> = (0..40)
                .map(|_| {
                    let mut stream = TcpStream::connect(address).unwrap();
                    let _ = stream.write_all(b"GET / HT");
                    stream
                })
                .collect();
            let answer = get(address, "/");
            // Full is said at once, while those who fill it are still waited for. A machine that stood still until they were
            // let go has shown nothing, and is asked again.
            let full = slow.iter().filter(|s| is_held(s)).count() >= 32;
            // Silence is over after the time limit of a request, and there is room again.
            while status(&get(address, "/")) != 200 {
                assert!(started.elapsed() < PATIENCE, "the slow clients were never let go");
                std::thread::sleep(Duration::from_millis(200));
            }
            if full {
                assert!(matches!(status(&answer), 503 | 0), "{answer}");
                break;
            }
            assert!(started.elapsed() < PATIENCE, "it was never full");
        }
    });
}

#[test]
fn it_listens_on_loopback_alone() {
    serving(|address, _| {
        assert!(address.ip().is_loopback());
        // The address this machine would use to speak to others; no packet is sent.
        let outside = UdpSocket::bind("0.0.0.0:0").and_then(|s| s.connect("192.0.2.1:9").and_then(|()| s.local_addr()));
        match outside {
            Ok(mine) if !mine.ip().is_loopback() && !mine.ip().is_unspecified() => {
                let other = SocketAddr::new(mine.ip(), address.port());
                let met = TcpStream::connect_timeout(&other, Duration::from_secs(2));
                // A connection that was given the very port it asks for is connected to itself.
                let itself = met.as_ref().is_ok_and(|s| s.local_addr().unwrap() == other);
                assert!(met.is_err() || itself, "{other} answers");
            }
            _ => println!("SKIPPED: this machine has no address but loopback"),
        }
    });
}
