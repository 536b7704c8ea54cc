//! A small client of the `WebDriver` protocol of the W3C, enough to open a page and look at it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// A browser without a window, driven over loopback; ended when dropped.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Removed with the browser.
    profile: tempfile::TempDir,
}

impl Browser {
    /// Starts driver and browser; `None` with a printed sentence where they are not installed.
    pub(crate) fn start() -> Option<Self> {
        let binary = ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(found);
        let (Some(driver), Some(binary)) = (found("chromedriver"), binary) else {
            println!("SKIPPED: chromium and chromedriver are not installed, no page was opened");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new(driver)
            .args(["--port=0", "--allowed-ips=127.0.0.1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().expect("the driver says its port").unwrap();
            if let Some(port) =
                line.strip_suffix('.').and_then(|l| l.rsplit(' ').next()).filter(|_| line.contains("on port"))
            {
                break port.parse().unwrap();
            }
        };
        // Whatever the driver says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self { driver, port, session: String::new(), profile };
        let data = format!("--user-data-dir={}", browser.profile.path().display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
            "--window-size=1200,900",
            &data,
        ];
        let made = browser.call(
            "POST",
            "/session",
            &json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments, "binary": binary},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}}),
        );
        made["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        // A busy machine draws slowly; what never ends is ended by the reader of the answer.
        browser.post("timeouts", &json!({"script": 240_000, "pageLoad": 240_000}));
        browser.cdp("Browser.setDownloadBehavior", &json!({"behavior": "deny"}));
        Some(browser)
    }

    pub(crate) fn open(&self, address: &str) {
        self.post("url", &json!({"url": address}));
    }

    pub(crate) fn open_file(&self, path: &Path) {
        self.open(&format!("file://{}", path.display()));
    }

    /// Runs a function body in the page and gives what it returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// The same for a body that awaits.
    pub(crate) fn run_later(&self, script: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; (async () => {{ {script} }})().then(done, (e) => done('error: ' + e));"
        );
        self.post("execute/async", &json!({"script": script, "args": []}))
    }

    /// A command of the browser's own protocol.
    pub(crate) fn cdp(&self, command: &str, parameters: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// What the page said on the console, errors of the browser included, since it was last asked for.
    pub(crate) fn console(&self) -> Vec<String> {
        let entries = self.post("se/log", &json!({"type": "browser"}));
        let entries = entries.as_array().unwrap().iter();
        // A message begins with the address of the page it is about.
        let of_pages = entries.filter(|e| !is_browsers_own(e["message"].as_str().unwrap_or_default()));
        of_pages.map(|e| format!("{}: {}", e["level"], e["message"])).collect()
    }

    /// Addresses that were asked for since it was last asked, pictures inside the page left out, and what the browser's first
    /// page, which may still be loading, asked for.
    pub(crate) fn requests(&self) -> Vec<String> {
        let entries = self.post("se/log", &json!({"type": "performance"}));
        let events = entries
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|e| serde_json::from_str::<Value>(e["message"].as_str()?).ok());
        events
            .filter(|e| e["message"]["method"] == "Network.requestWillBeSent")
            .map(|e| e["message"]["params"].clone())
            .filter(|asked| !is_browsers_own(asked["documentURL"].as_str().unwrap_or_default()))
            .filter_map(|asked| Some(asked["request"]["url"].as_str()?.to_owned()))
            .filter(|url| !url.starts_with("data:") && !is_browsers_own(url))
            .collect()
    }

    /// What stands in `value` of an answer; an error is a failed test.
    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}/{path}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(5))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(reader.read_line(&mut line).unwrap() > 0, "the driver ended the connection");
            if let Some((name, value)) = line.split_once(':').filter(|(n, _)| n.eq_ignore_ascii_case("content-length"))
            {
                length = value.trim().parse().unwrap_or_else(|_| panic!("{name}"));
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["value"]["error"].is_null(), "{path}: {}", answer["value"]["message"]);
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = write!(
                stream,
                "DELETE /session/{} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
                self.session, self.port
            );
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Whether an address is of a page the browser brings along: the empty one, a new tab, its own tools.
fn is_browsers_own(address: &str) -> bool {
    let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme == "about" || scheme == "devtools" || scheme == "chrome" || scheme.starts_with("chrome-")
}

#[test]
fn the_pages_of_a_browser_are_not_ours() {
    for own in ["about:blank", "chrome://new-tab-page/ 1:2 no", "chrome-untrusted://new-tab-page/x", "devtools://a"] {
        assert!(is_browsers_own(own), "{own}");
    }
    for ours in ["file:///a/page.html", "http://127.0.0.1:80/", "https://chrome.example/", "", "javascript 1:2 x"] {
        assert!(!is_browsers_own(ours), "{ours}");
    }
}

/// The path of a program, if it is there.
fn found(name: &str) -> Option<String> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|f| f.join(name))
        .find(|p| p.is_file())
        .map(|p| p.to_string_lossy().into_owned())
}
