//! A Hugging Face hub → a model's files in the cache.
//!
//! Invariant: all files are of one commit, and a file whose sha256 the hub states has that sha256. A large file that was
//! cut is continued where it stopped, in this run and in the next.
//!
//! Source: the hub's `resolve` route answers for large files with a redirect whose `x-linked-etag` is the sha256, and
//! for each file with `x-repo-commit`.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ureq::http::header::{CONTENT_LENGTH, CONTENT_RANGE, LOCATION, RANGE};
use ureq::http::{HeaderMap, Response, StatusCode, Uri};
use ureq::{Agent, Body};

use super::{
    FetchError, FetchOptions, HubId, N_REQUIRED, Progress, SETTINGS, Staging, Weights, manifest,
};

/// How often a file is asked for before a cut connection is an error.
const N_TRIES: u32 = 4;

/// How many redirects one request may take.
const N_REDIRECTS: u32 = 5;

/// Fetches what is needed to run the model, and publishes it.
pub(super) fn download(
    id: &HubId,
    options: &FetchOptions,
    staging: &Staging,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), FetchError> {
    let folder = staging.folder("hub")?;
    let config = ureq::config::Config::builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(options.connect_timeout))
        .timeout_resolve(Some(options.connect_timeout))
        .timeout_recv_response(Some(options.read_timeout))
        .timeout_per_read(Some(options.read_timeout))
        .user_agent(concat!("umbel/", env!("CARGO_PKG_VERSION")))
        .build();
    let mut hub = Hub {
        agent: config.new_agent(),
        base: format!("{}/{}/resolve", options.endpoint, id.as_str()),
        revision: "main".to_owned(),
        folder: folder.clone(),
        fetched: Vec::new(),
        progress,
    };
    for (idx, file) in SETTINGS.into_iter().enumerate() {
        if !hub.fetch(file, None)? && idx < N_REQUIRED {
            return Err(FetchError::Status {
                url: hub.url(file),
                status: StatusCode::NOT_FOUND.as_u16(),
            });
        }
    }
    hub.fetch_weights(id)?;
    // A run that did not reach its end may have left files of another commit.
    for name in manifest::list(&folder)?.into_iter().filter(|name| !hub.fetched.contains(name)) {
        fs_err::remove_file(folder.join(name))?;
    }
    Ok(staging
        .publish(&folder, &format!("hub {} {}@{}", options.endpoint, id.as_str(), hub.revision))?)
}

struct Hub<'a> {
    agent: Agent,
    /// `https://…/org/name/resolve`.
    base: String,
    /// `main`, then the commit that it stood for at the first answer.
    revision: String,
    folder: PathBuf,
    /// The files that are whole, by their place in the folder.
    fetched: Vec<String>,
    progress: &'a mut dyn FnMut(Progress),
}

/// What the hub says about a file before sending it.
#[derive(Default)]
struct Facts {
    sha256: Option<String>,
    commit: Option<String>,
}

/// What became of one request.
enum Outcome {
    Done,
    /// There is no such file.
    Absent,
    /// The connection broke; what came is kept.
    Cut {
        got_bytes: u64,
        wanted_bytes: u64,
    },
    /// What an earlier run left cannot be continued, and is gone.
    Restart,
}

impl Hub<'_> {
    fn url(&self, file: &str) -> String {
        format!("{}/{}/{file}", self.base, self.revision)
    }

    /// The best weights that there are, and only those.
    fn fetch_weights(&mut self, id: &HubId) -> Result<(), FetchError> {
        let config = fs_err::read(self.folder.join("config.json"))?;
        for weights in Weights::preferred(&config) {
            let file = weights.file_name();
            let pinned = id.pinned_sha256().filter(|_| weights == Weights::Safetensors);
            if self.fetch(file, pinned)? {
                if weights != Weights::Safetensors {
                    // Exports above 2 GB keep their weights in a second file.
                    self.fetch(&format!("{file}_data"), None)?;
                }
                return Ok(());
            }
            if pinned.is_some() {
                break;
            }
        }
        Err(FetchError::NoWeights)
    }

    /// Fetches one file; false if the hub has none of that name.
    fn fetch(&mut self, file: &str, pinned_sha256: Option<&str>) -> Result<bool, FetchError> {
        let path = self.folder.join(file);
        let part = PathBuf::from(format!("{}.part", path.display()));
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        if path.exists() {
            // Whole, but of a run that did not reach its end: checked like any other.
            fs_err::rename(&path, &part)?;
        }
        let mut cut = None;
        for _ in 0..N_TRIES {
            match self.request(file, &part, pinned_sha256)? {
                Outcome::Done => {
                    fs_err::rename(&part, &path)?;
                    self.fetched.push(file.to_owned());
                    return Ok(true);
                }
                Outcome::Absent => return Ok(false),
                Outcome::Cut { got_bytes, wanted_bytes } => {
                    cut = Some(FetchError::Cut { file: file.to_owned(), got_bytes, wanted_bytes });
                }
                Outcome::Restart => {}
            }
        }
        Err(cut.unwrap_or_else(|| FetchError::Damaged { file: file.to_owned() }))
    }

    fn request(
        &mut self,
        file: &str,
        part: &Path,
        pinned_sha256: Option<&str>,
    ) -> Result<Outcome, FetchError> {
        let url = self.url(file);
        let have_bytes = fs_err::metadata(part).map_or(0, |metadata| metadata.len());
        let (facts, mut response) = self.get(&url, have_bytes)?;
        if let Some(commit) = facts.commit {
            self.revision = commit;
        }
        let sha256 = pinned_sha256.map(str::to_owned).or(facts.sha256);
        let start_bytes = match response.status() {
            StatusCode::OK => 0,
            // Without a digest nobody could tell whether both halves are of one file.
            StatusCode::PARTIAL_CONTENT
                if sha256.is_some() && starts_at(response.headers(), have_bytes) =>
            {
                have_bytes
            }
            // All of it is here already, or more than that.
            StatusCode::RANGE_NOT_SATISFIABLE if sha256.is_some() => {
                return Self::check(file, part, sha256);
            }
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                remove_file(part)?;
                return Ok(Outcome::Restart);
            }
            StatusCode::NOT_FOUND => return Ok(Outcome::Absent),
            status => return Err(FetchError::Status { url, status: status.as_u16() }),
        };
        let rest_bytes =
            number(response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()));
        let wanted_bytes = rest_bytes.map(|rest| start_bytes + rest);
        let got_bytes =
            self.receive(&url, file, part, response.body_mut(), start_bytes, wanted_bytes)?;
        match wanted_bytes.filter(|wanted| got_bytes < *wanted) {
            Some(wanted_bytes) => Ok(Outcome::Cut { got_bytes, wanted_bytes }),
            None => Self::check(file, part, sha256),
        }
    }

    /// Asks for a file from a byte on, following redirects and keeping what each answer says about it.
    fn get(&self, url: &str, start_bytes: u64) -> Result<(Facts, Response<Body>), FetchError> {
        let mut facts = Facts::default();
        let mut target = url.to_owned();
        for _ in 0..=N_REDIRECTS {
            let mut request = self.agent.get(&target);
            // Compressed bytes could neither be counted nor continued.
            request = request.header("accept-encoding", "identity");
            if start_bytes > 0 {
                request = request.header(RANGE, format!("bytes={start_bytes}-"));
            }
            let response = request.call().map_err(|error| connection_error(url, error))?;
            facts.read(response.headers());
            if !response.status().is_redirection() {
                return Ok((facts, response));
            }
            let location = response
                .headers()
                .get(LOCATION)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default();
            target = resolve(&target, location);
        }
        Err(FetchError::Connection {
            url: url.to_owned(),
            source: ureq::Error::TooManyRedirects.into(),
        })
    }

    /// Appends the answer to the part, and gives its length then.
    fn receive(
        &mut self,
        url: &str,
        file: &str,
        part: &Path,
        body: &mut Body,
        start_bytes: u64,
        total_bytes: Option<u64>,
    ) -> Result<u64, FetchError> {
        let mut written =
            fs_err::OpenOptions::new().create(true).truncate(false).write(true).open(part)?;
        written.set_len(start_bytes)?;
        io::Seek::seek(&mut written, io::SeekFrom::End(0))?;
        let mut reader = body.as_reader();
        let mut buffer = vec![0; 1 << 16];
        let mut done_bytes = start_bytes;
        loop {
            let n_bytes = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(n_bytes) => n_bytes,
                // Cut. With progress and a known length it is worth another try; otherwise the reason is the answer.
                Err(_) if done_bytes > start_bytes && total_bytes.is_some() => break,
                Err(error) => return Err(connection_error(url, error.into())),
            };
            written.write_all(&buffer[..n_bytes])?;
            done_bytes += n_bytes as u64;
            (self.progress)(Progress { file, done_bytes, total_bytes });
        }
        written.sync_all()?;
        Ok(done_bytes)
    }

    /// Compares the part with what the hub promised. A wrong one is removed: continuing it could never help.
    fn check(file: &str, part: &Path, sha256: Option<String>) -> Result<Outcome, FetchError> {
        let Some(wanted) = sha256 else { return Ok(Outcome::Done) };
        let got = manifest::sha256(part)?;
        if got == wanted {
            return Ok(Outcome::Done);
        }
        remove_file(part)?;
        Err(FetchError::Digest { file: file.to_owned(), got, wanted })
    }
}

impl Facts {
    fn read(&mut self, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let is_hex = |text: &str, n_digits: usize| {
            text.len() == n_digits && text.bytes().all(|b| b.is_ascii_hexdigit())
        };
        // Small files have the id of their git blob here, which is shorter and no sha256.
        let etag =
            text("x-linked-etag").map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
        if let Some(sha256) = etag.filter(|etag| is_hex(etag, 64)) {
            self.sha256 = Some(sha256.to_ascii_lowercase());
        }
        if let Some(commit) = text("x-repo-commit").filter(|commit| is_hex(commit, 40)) {
            self.commit = Some(commit.to_owned());
        }
    }
}

/// Whether a partial answer continues at the byte asked for.
fn starts_at(headers: &HeaderMap, start_bytes: u64) -> bool {
    let range = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    number(range.and_then(|range| range.strip_prefix("bytes ")?.split('-').next()))
        == Some(start_bytes)
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.trim().parse().ok()
}

/// A redirect's target, which may lack scheme and host.
fn resolve(base: &str, location: &str) -> String {
    match base.parse::<Uri>() {
        Ok(uri) if location.starts_with('/') && !location.starts_with("//") => {
            let scheme = uri.scheme_str().unwrap_or("https");
            format!(
                "{scheme}://{}{location}",
                uri.authority().map_or("", |authority| authority.as_str())
            )
        }
        _ => location.to_owned(),
    }
}

fn connection_error(url: &str, error: ureq::Error) -> FetchError {
    let url = url.to_owned();
    match error {
        ureq::Error::Timeout(phase) => FetchError::Timeout { url, phase: phase.to_string() },
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            FetchError::Timeout { url, phase: "receive body".to_owned() }
        }
        error => FetchError::Connection { url, source: error.into() },
    }
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
