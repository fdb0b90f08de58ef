//! Each mistake gives one clear error or warning with a hint, the right exit code, and leaves the store usable.

use super::cli::{Place, Ran, list, number, text};
use std::path::Path;
use std::process::Command;
use umbel::store::{Layout, lock};

const PAGE: (&str, &str) = ("a.md", "# A\n\nAn otter swims.\n");

/// The store still answers.
#[track_caller]
fn usable(place: &Place) {
    place.run(&["search", "otter"]).succeeds();
    place.run(&["check"]).succeeds();
}

#[test]
fn a_missing_path() {
    let place = Place::indexed(&[PAGE]);
    place.run(&["index", "docs", "nowhere", "--lexical"]).fails(2, "`nowhere` does not exist");
    usable(&place);
}

#[test]
fn a_word_that_is_no_command() {
    let place = Place::new();
    let ran = place.run(&["serch"]).code(2);
    assert!(
        ran.stderr().contains("error: ") && ran.stderr().contains("search"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn an_empty_question() {
    Place::indexed(&[PAGE]).run(&["search", " "]).fails(2, "the question is empty");
}

#[test]
fn no_store() {
    let place = Place::new();
    for command in [
        &["search", "x"][..],
        &["stats"],
        &["check"],
        &["tree"],
        &["show", "a.md"],
        &["remove", "a.md"],
    ] {
        place.run(command).fails(3, "there is no store in `.umbel`");
    }
}

#[test]
fn binary_files_and_other_encodings_are_skipped_with_a_warning() {
    let place = Place::indexed(&[PAGE]);
    place.write("docs/binary.md", b"\x00\x01");
    place.write("docs/latin.txt", b"caf\xe9");
    place
        .run(&["index", "docs", "--lexical"])
        .succeeds()
        .warns("`binary.md`: is a binary file")
        .warns("`latin.txt`: is not UTF-8 (byte 3)");
    usable(&place);
}

#[test]
fn a_file_that_breaks_keeps_what_was_indexed_of_it() {
    let place = Place::indexed(&[PAGE]);
    place.write("docs/a.md", b"\xff\xfe");
    place.run(&["index", "docs", "--lexical"]).succeeds().warns("`a.md`: is not UTF-8");
    usable(&place);
}

#[test]
fn an_empty_folder() {
    let place = Place::new();
    fs_err::create_dir_all(place.path().join("docs")).unwrap();
    place.run(&["index", "docs", "--lexical"]).succeeds().warns("no document was found");
    place.run(&["search", "x"]).code(1);
    place.run(&["stats"]).succeeds();
}

#[test]
fn a_corrupt_catalog_is_named_and_can_be_rebuilt() {
    for damage in [&b"not a database, but long enough to be read as one"[..], b""] {
        let place = Place::indexed(&[PAGE]);
        for suffix in ["-wal", "-shm"] {
            let _ =
                fs_err::remove_file(place.path().join(format!(".umbel/catalog.sqlite{suffix}")));
        }
        place.write(".umbel/catalog.sqlite", damage);
        place.run(&["search", "otter"]).fails(3, "cannot be read");
        place.run(&["index", "docs", "--lexical"]).fails(3, "cannot be read");
        place.run(&["index", "docs", "--lexical", "--rebuild"]).succeeds();
        usable(&place);
    }
}

#[test]
fn a_damaged_or_missing_index_is_built_anew_from_the_catalog() {
    let place = Place::indexed(&[PAGE, ("b.md", "# B\n\nA heron.\n")]);
    fs_err::remove_dir_all(place.path().join(".umbel/index")).unwrap();
    place.run(&["search", "otter"]).succeeds().warns("built anew");
    usable(&place);
    for file in walk(&place.path().join(".umbel/index")) {
        if file.extension().is_some_and(|e| e == "json") {
            fs_err::write(file, "{ garbage").unwrap();
        }
    }
    place.run(&["search", "otter"]).succeeds().warns("built anew");
    usable(&place);
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs_err::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_store_of_another_version() {
    let place = Place::indexed(&[PAGE]);
    let path = place.path().join(".umbel/catalog.sqlite");
    let mut bytes = fs_err::read(&path).unwrap();
    // The version of the format stands at byte 60 of an SQLite file.
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    fs_err::write(&path, bytes).unwrap();
    place.run(&["search", "otter"]).fails(3, "has format 99, this version reads 1 to 3");
}

#[test]
fn a_store_of_another_language() {
    let place = Place::indexed(&[PAGE]);
    place
        .run(&["index", "docs", "--lexical", "--set", "lexical.language=german"])
        .fails(3, "stemmed as `english`, got `german`");
    place
        .run(&["index", "docs", "--lexical", "--set", "lexical.language=klingon"])
        .fails(2, "klingon");
    usable(&place);
}

#[test]
fn a_store_of_another_model() {
    let place = Place::new();
    place.write("docs/a.md", PAGE.1);
    place.run(&["index", "docs"]).succeeds();
    // The same weights in a folder of another name are another model to the store.
    let folder = place.run(&["model", "pull", "--json"]).succeeds().json();
    let copy = place.path().join("other-model");
    fs_err::create_dir_all(copy.join("1_Pooling")).unwrap();
    let from = Path::new(text(&folder, "/folder"));
    for file in walk(from)
        .iter()
        .filter(|file| file.file_name().is_some_and(|name| name != "manifest.json"))
    {
        let to = copy.join(file.strip_prefix(from).unwrap());
        if to.parent().is_some_and(Path::is_dir)
            && !to.file_name().unwrap().to_string_lossy().starts_with('.')
        {
            fs_err::hard_link(file, &to).or_else(|_| fs_err::copy(file, &to).map(|_| ())).unwrap();
        }
    }
    let set = format!("embed.model={}", copy.display());
    place.run(&["index", "docs", "--set", &set]).fails(3, "got `other-model@");
    place.run(&["search", "otter", "--set", &set]).fails(3, "the store holds vectors of");
    usable(&place);
}

#[test]
fn a_store_that_another_process_holds() {
    let place = Place::indexed(&[PAGE]);
    let held = lock(&Layout::new(&place.path().join(".umbel"))).unwrap();
    let pid = std::process::id().to_string();
    place.run(&["index", "docs", "--lexical"]).fails(3, &format!("is held by process {pid}"));
    place.run(&["search", "otter"]).fails(3, &format!("is held by process {pid}"));
    place.run(&["stats"]).succeeds();
    place.run(&["tree", "a.md"]).succeeds();
    place.run(&["check"]).succeeds().warns("another process holds the store");
    drop(held);
    usable(&place);
}

#[test]
fn no_model_and_no_network() {
    let place = Place::indexed(&[PAGE]);
    let cache = place.path().join("empty-cache");
    let mut command = place.command(&["index", "docs"]);
    command.env("UMBEL_CACHE", &cache).env("UMBEL_OFFLINE", "1");
    Ran::of(command, "index docs, offline".to_owned()).fails(3, "all-MiniLM-L6-v2");
    let mut command = place.command(&["index", "docs"]);
    // Nothing listens there, and there is no Python.
    command.env("UMBEL_CACHE", &cache).env("HF_ENDPOINT", "http://127.0.0.1:9").env("PATH", "");
    Ran::of(command, "index docs, no network".to_owned()).fails(3, "all-MiniLM-L6-v2");
    usable(&place);
}

/// A command as another user than root, to whom permissions apply; `None` where the test is run by another user already
/// and the command is ready as it is.
fn as_other_user(place: &Place, args: &[&str]) -> Command {
    let is_root =
        Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout.starts_with(b"0\n"));
    if !is_root {
        return place.command(args);
    }
    let program = place.path().join("umbel");
    if !program.exists() {
        fs_err::copy(env!("CARGO_BIN_EXE_umbel"), &program).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).args(args);
    command.current_dir(place.path()).env_remove("UMBEL_STORE");
    command
}

fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_unreadable_file_is_skipped_with_a_warning() {
    let place = Place::new();
    place.write("docs/a.md", PAGE.1);
    place.write("docs/secret.md", "# S\n\nSecret.\n");
    mode(&place.path().join("docs/secret.md"), 0o000);
    mode(place.path(), 0o777);
    let args = ["index", "docs", "--lexical"];
    let ran = Ran::of(as_other_user(&place, &args), args.join(" ")).succeeds();
    let ran = ran.warns("`secret.md`: cannot be read");
    assert!(ran.stdout().contains("1 document"), "{}", ran.stdout());
}

#[test]
fn a_folder_that_cannot_be_looked_into_keeps_its_documents() {
    let place = Place::new();
    place.write("docs/a.md", PAGE.1);
    place.write("docs/sub/b.md", "# B\n\nA heron.\n");
    mode(place.path(), 0o777);
    let args = ["index", "docs", "--lexical", "--json"];
    Ran::of(as_other_user(&place, &args), args.join(" ")).succeeds();
    mode(&place.path().join("docs/sub"), 0o000);
    let report = Ran::of(as_other_user(&place, &args), args.join(" ")).succeeds().json();
    mode(&place.path().join("docs/sub"), 0o755);
    assert_eq!((number(&report, "/removed"), number(&report, "/documents")), (0, 2));
    assert_eq!(list(&report, "/skipped").len(), 1);
}

#[test]
fn a_file_that_never_ends_is_skipped() {
    let place = Place::indexed(&[PAGE]);
    let made = Command::new("mkfifo").arg(place.path().join("docs/pipe.md")).status().unwrap();
    assert!(made.success());
    place.run(&["index", "docs", "--lexical"]).succeeds().warns("`pipe.md`: is not a regular file");
    usable(&place);
}

#[test]
fn a_folder_of_somebody_else_is_no_place_for_a_store() {
    let place = Place::new();
    place.write("docs/a.md", PAGE.1);
    place.write("project/index/precious.txt", "x");
    for rebuild in [
        &["--store", "project", "index", "docs", "--lexical"][..],
        &["--store", "project", "index", "docs", "--lexical", "--rebuild"],
    ] {
        place.run(rebuild).fails(3, "`project` is no store, and holds `index`");
    }
    assert!(place.path().join("project/index/precious.txt").exists());
}

#[test]
fn words_only_is_refused_for_a_store_with_vectors() {
    let place = Place::new();
    place.write("docs/a.md", PAGE.1);
    place.run(&["index", "docs"]).succeeds();
    place.run(&["index", "docs", "--lexical"]).fails(3, "no model is loaded");
    let report = place.run(&["index", "docs", "--json"]).succeeds().json();
    assert_eq!((number(&report, "/unchanged"), number(&report, "/embedded")), (1, 0));
    usable(&place);
}

#[test]
fn two_folders_of_one_name_and_one_folder_of_two_names() {
    let place = Place::new();
    place.write("docs/a.md", PAGE.1);
    place.write("docs/docs/b.md", "# B\n\nA heron.\n");
    let mut command = place.command(&["--store", "../.umbel", "index", ".", "docs", "--lexical"]);
    command.current_dir(place.path().join("docs"));
    Ran::of(command, "index . docs".to_owned()).fails(2, "the source `docs` is");
    place.run(&["index", "docs", "--lexical"]).succeeds();
    place
        .run(&["index", "docs", "--source", "handbook", "--lexical"])
        .fails(2, "is the source `docs` already");
    usable(&place);
}

#[test]
fn a_store_that_cannot_be_written() {
    let place = Place::indexed(&[PAGE]);
    for file in walk(&place.path().join(".umbel")) {
        mode(&file, 0o444);
    }
    mode(&place.path().join(".umbel"), 0o555);
    mode(place.path(), 0o755);
    let args = ["index", "docs", "--lexical"];
    Ran::of(as_other_user(&place, &args), args.join(" ")).fails(3, "cannot be used");
    let args = ["stats", "--json"];
    let stats = Ran::of(as_other_user(&place, &args), args.join(" ")).succeeds().json();
    assert_eq!(number(&stats, "/documents"), 1);
}

#[test]
fn no_space_left() {
    let place = Place::new();
    let disk = place.path().join("disk");
    fs_err::create_dir_all(&disk).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=256m", "tmpfs"]).arg(&disk).output();
    if !mounted.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    }
    let unmount = Unmount(disk.clone());
    place.write("docs/a.md", PAGE.1);
    place.run(&["--store", "disk/store", "index", "docs", "--lexical"]).succeeds();
    place.write("docs/b.md", "# B\n\nA heron.\n");
    for left_kib in [64 << 10, 0] {
        // Fill the disk but for a little, or wholly.
        let free = free_kib(&disk).saturating_sub(left_kib);
        let filler = disk.join(format!("filler-{left_kib}"));
        let _ = Command::new("dd")
            .args(["if=/dev/zero", "bs=1024"])
            .arg(format!("of={}", filler.display()))
            .arg(format!("count={free}"))
            .output();
        let ran = place.run(&["--store", "disk/store", "index", "docs", "--lexical"]).code(3);
        assert!(
            ran.stderr().contains("error: ") && ran.stderr().contains("hint: "),
            "{}",
            ran.stderr()
        );
        assert!(!ran.stderr().contains("panicked"), "{}", ran.stderr());
    }
    place.run(&["--store", "disk/store", "tree", "a.md"]).succeeds();
    for left_kib in [64 << 10, 0] {
        fs_err::remove_file(disk.join(format!("filler-{left_kib}"))).unwrap();
    }
    place.run(&["--store", "disk/store", "index", "docs", "--lexical"]).succeeds();
    place.run(&["--store", "disk/store", "search", "heron"]).succeeds();
    place.run(&["--store", "disk/store", "check"]).succeeds();
    drop(unmount);
}

/// What `df` says is free, in KiB.
fn free_kib(disk: &Path) -> usize {
    let out = Command::new("df").args(["-k", "--output=avail"]).arg(disk).output().unwrap();
    String::from_utf8(out.stdout).unwrap().lines().nth(1).unwrap().trim().parse().unwrap()
}

struct Unmount(std::path::PathBuf);
impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::indexed(&[PAGE]);
    let report = place.run(&["index", "docs", "--lexical", "--json"]).succeeds().json();
    assert!(list(&report, "/skipped").is_empty());
    let mut command = place.command(&["tree"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}
